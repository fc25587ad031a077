"""Counts and logs the answers of scripts that this version has no rule for, and remembers them for the findings in
health.

Only a fault of the bridge gives such an answer. No code acts on the answer: the message is neither acknowledged nor
dropped.
"""

from __future__ import annotations

from time import monotonic
from typing import Final, NamedTuple

import structlog

from bridge.metrics.store import UNNAMED
from bridge.model.errors import UnnamedVerdict
from bridge.store.messages.outcomes import NoRule

log = structlog.get_logger(__name__)

_MOST: Final = 16  # scripts with a verdict that are told apart
_LOGGED_S: Final = 60.0
_SHOWN_S: Final = 600.0
"""How long the watch shows such an answer as a finding."""


class Kind(NamedTuple):
    script_name: str
    verdict: str


class Unnamed:
    """Remembers which answers of one store this version has no rule for. `latest_s`: when each kind (script and
    verdict) came last, as a moment of `monotonic()`."""

    def __init__(self) -> None:
        self.latest_s: dict[Kind, float] = {}
        self._logged_s: dict[Kind, float] = {}

    def note(self, answer: NoRule, title: str) -> UnnamedVerdict:
        """Counts and logs one answer, remembers it, and returns the error for its caller. `title`: names the server
        that answered."""
        kind, now_s = Kind(answer.script_name, answer.verdict), monotonic()
        UNNAMED.labels(kind.script_name).inc()
        if kind in self.latest_s or len(self.latest_s) < _MOST:
            self.latest_s[kind] = now_s
        error = UnnamedVerdict(
            f"{title} answered {kind.verdict!r} to the script {kind.script_name} about the message "
            f"{answer.message_id!r} of the topic {answer.topic!r}, and this version has no rule for that"
        )
        if now_s - self._logged_s.get(kind, -_LOGGED_S) >= _LOGGED_S and kind in self.latest_s:
            self._logged_s[kind] = now_s
            log.error("store.unnamed_verdict", reason=str(error))
        return error

    def lately(self) -> list[Kind]:
        """Returns the kinds of answers that came within the last ten minutes."""
        since_s = monotonic() - _SHOWN_S
        return sorted(kind for kind, at_s in self.latest_s.items() if at_s > since_s)
