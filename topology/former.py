"""Names the slots of builds from before the first release. A drain still moves the messages in these slots.

The slots' names did not sort by duration. A wheel of such a build and a wheel of this version would share their
exchanges, and each message would wait in both. So no wheel is declared beside the slots of such a build.
"""

from dataclasses import fields
from typing import Final, Self

from topology.names import Names

# By hand: the size and the unit of one step. Slot 3 of `tens-of-days` was `30d`.
_STEPS: Final = {
    "hundreds-of-days": (100, "d"),
    "tens-of-days": (10, "d"),
    "days": (1, "d"),
    "hours": (1, "h"),
    "minutes": (1, "m"),
    "seconds": (1, "s"),
    "tenths": (100, "ms"),
}


class FormerNames(Names):
    """The names that builds from before the first release gave to the topology. Only the slots' names differ."""

    @classmethod
    def of(cls, names: Names) -> Self:
        """Returns the former names for the topology and the lane of `names`."""
        return cls(**{field.name: getattr(names, field.name) for field in fields(Names)})

    def slot(self, hand: str, value: int) -> str:
        """Returns the name of the queue for one value of a hand: (`minutes`, 30) -> `delay.30m`, (`tenths`, 2) ->
        `delay.lane2.200ms` in lane 2."""
        step, unit = _STEPS[hand]
        return f"{self.entry}.{value * step}{unit}"
