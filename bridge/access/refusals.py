"""Refused requests are counted, and told to the log, but no more often than once a second of one token and kind."""

from __future__ import annotations

from math import inf
from time import monotonic

import structlog

from bridge import metrics
from bridge.access.errors import Refused

log = structlog.get_logger(__name__)

_EVERY_S = 1.0
# When each kind and token was last told, and how many were refused since. The ids are of tokens that exist.
_told: dict[tuple[str, str | None], tuple[float, int]] = {}


def tell(refusal: Refused) -> None:
    metrics.ACCESS_REFUSED.labels(refusal.kind).inc()
    about, now_s = (refusal.kind, refusal.token_id), monotonic()
    last_s, count = _told.get(about, (-inf, 0))
    if now_s - last_s < _EVERY_S:
        _told[about] = (last_s, count + 1)
        return
    _told[about] = (now_s, 0)
    log.info("access.refused", kind=refusal.kind, token=refusal.token_id, count=count + 1, reason=str(refusal))
