"""Names the topics of a simulation, by how their messages are consumed."""

from __future__ import annotations

from typing import Final

PULLED: Final = ("pulled-1", "pulled-2")
CONSUMED: Final = ("consumed",)
"""By an AMQP client."""

CHANGED: Final = ("slow",)
"""Pulled by a consumer that often lets leases end, extends them, or gives messages back."""

ONCE: Final = "once"
"""Its messages have no retry."""

ALL: Final = (*PULLED, *CONSUMED, *CHANGED, ONCE)
