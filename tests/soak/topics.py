"""Names the topics of a soak, by what happens to them."""

from __future__ import annotations

from typing import Final

PULLED: Final = "pulled"
CONSUMED: Final = "consumed"  # over AMQP
LETTERS: Final = "letters"  # each message becomes a dead letter
QUIET: Final = "quiet"  # gets no message, so that polls wait
NAMESPACE, JOBS = "soak", "jobs"  # of lmstfy
PASSING: Final = "passing-"  # begins the names of topics that are removed

STAYING: Final = (PULLED, CONSUMED, LETTERS, QUIET, f"{QUIET}-2", f"{NAMESPACE}/{JOBS}")
"""The topics that no round removes."""
