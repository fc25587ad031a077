"""Counts refused requests, and logs them at most once a second for each token and kind of refusal."""

from __future__ import annotations

from math import inf
from time import monotonic

import structlog

from bridge.access.errors import Refused
from bridge.metrics.http import ACCESS_REFUSED

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
# By kind and token: when a refusal was last logged, and how many followed since. Only ids of existing tokens are keys,
# so the dict stays small.
_logged: dict[tuple[str, str | None], tuple[float, int]] = {}


def report(refusal: Refused) -> None:
    """Counts the refusal. Logs it with the number of refusals since the last log line, at most once a second for each
    token and kind."""
    ACCESS_REFUSED.labels(refusal.kind).inc()
    key, now_s = (refusal.kind, refusal.token_id), monotonic()
    last_s, count = _logged.get(key, (-inf, 0))
    if now_s - last_s < _EVERY_S:
        _logged[key] = (last_s, count + 1)
        return
    _logged[key] = (now_s, 0)
    log.info("access.refused", kind=refusal.kind, token=refusal.token_id, count=count + 1, reason=str(refusal))
