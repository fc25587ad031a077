"""Names the topics of a soak, by what happens to them."""

from __future__ import annotations

from typing import Final

PULLED: Final = "pulled"
CONSUMED: Final = "consumed"  # over AMQP
LETTERS: Final = "letters"  # each message becomes a dead letter
QUIET: Final = "quiet"  # gets no message, so that polls wait
NAMESPACE, JOBS = "soak", "jobs"  # of lmstfy
WIRED: Final = "wired"  # of the other wires
PASSING: Final = "passing-"  # begins the names of topics that are removed
