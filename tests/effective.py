"""Makes effective policies for tests that have no settings."""

from __future__ import annotations

from typing import Final

from bridge.model.values import Backoff, Defaults, Effective, Policy

DEFAULTS: Final = Defaults(max_retry=3, ttl_ms=None, lease_ms=30_000, backoff=Backoff())
"""As the tests' bridges have them: a failed message is ready again at once."""


def effective(own: Policy | None = None, defaults: Defaults = DEFAULTS) -> Effective:
    return Effective.of(own or Policy(), defaults)
