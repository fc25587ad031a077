"""Logs when a server goes away, and when it is back."""

from __future__ import annotations

from math import inf
from typing import Final

import structlog

log = structlog.get_logger(__name__)

HOLD_S: Final = 5.0
"""How long a server must work before its outage counts as ended. So a server that goes away again and again does not
fill the log."""


class Outage:
    """Follows one server, and logs when an outage begins and when it has ended. Moments are seconds of a monotonic
    clock."""

    def __init__(self, part: str) -> None:
        """`part`: the server's name in `/health/ready`."""
        self._part = part
        self._since_s = self._works_since_s = inf

    @property
    def lasts(self) -> bool:
        """Whether the server is away, or has worked for less than `HOLD_S` since it came back."""
        return self._since_s < inf

    def seen(self, state: str, now_s: float) -> None:
        """Takes the result of a probe, and logs if the outage begins or ends. `state`: "ok" if a send would succeed, or
        the reason why not."""
        if state != "ok":
            self._works_since_s = inf
            if not self.lasts:
                self._since_s = now_s
                log.warning("server.away", part=self._part, reason=state)
            return
        self._works_since_s = min(self._works_since_s, now_s)
        if self.lasts and now_s >= self._works_since_s + HOLD_S:
            log.info("server.back", part=self._part, away_s=round(self._works_since_s - self._since_s, 1))
            self._since_s = inf
