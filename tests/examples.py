"""Decides how many examples a Hypothesis test tries: few by default, twenty times as many under `make fuzz`."""

from __future__ import annotations

import os
from typing import Final

from hypothesis import HealthCheck, settings

_TIMES: Final = {"short": 1, "long": 20}

PROFILE: Final = os.environ.get("HYPOTHESIS_PROFILE") or "short"
TIMES: Final = _TIMES[PROFILE]
"""The factor of this run's profile, short or long."""

_WITH_SERVERS: Final = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


def examples(count: int) -> settings:
    """Returns Hypothesis' settings: `count` examples in the short profile, each of which may ask servers."""
    return settings(max_examples=count * TIMES, suppress_health_check=_WITH_SERVERS)
