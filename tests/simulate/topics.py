"""Names the topics of a simulation: those of `make torture`, and two more."""

from __future__ import annotations

from typing import Final

from tests.torture.topics import CHECKED, LETTERS, REMOVED, STEADY, TICKED

SLOW: Final = "slow"
"""Pulled by a consumer that often lets leases end, extends them, or gives messages back."""

ONCE: Final = "once"
"""Its messages have no retry."""

CALLED: Final = "called"
"""Has a subscription, so the bridge posts its messages to a receiver."""

YOUNG: Final = ("young-1", "young-2", "young-3")
"""Pulled. Each begins while RabbitMQ is killed, if the seed draws this fault."""

SENT: Final = (*STEADY, SLOW, CALLED)
"""The topics of most messages."""

NEVER_DIRECT: Final = (*CHECKED, SLOW, CALLED)

ALL: Final = (*SENT, ONCE, REMOVED, LETTERS, *YOUNG)

USED: Final = (*SENT, ONCE, REMOVED, LETTERS, TICKED)
"""The topics of which a seed uses some."""
