"""Every name that stands on the broker, in one place."""

import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from zlib import crc32

_PART: Final = r"[A-Za-z0-9_.-]{1,100}"

TOPIC: Final = re.compile(rf"{_PART}(?:/{_PART})?")
"""A topic: `orders`, or `namespace/orders`. It may hold dots; it can hold neither `*`, `#` nor `!`."""

KIND: Final = re.compile(r"[a-z]{1,20}(?:-(?:bundle|parcel))?")
"""The kind of a copy, the word after `!` in a routing key: `lease`, `retry`; and that of a bundle of such copies.
A bundle was called a parcel before, and some may wait for months."""

MOST_LANES: Final = 64
"""More of them and the queues, 180 a lane, are what a cluster is busy with."""

# Hand -> what one step of it is, as an operator reads it: slot 3 of `tens-of-days` is `30d`.
_STEPS: Final = {
    "hundreds-of-days": (100, "d"),
    "tens-of-days": (10, "d"),
    "days": (1, "d"),
    "hours": (1, "h"),
    "minutes": (1, "m"),
    "seconds": (1, "s"),
    "tenths": (100, "ms"),
}

_START: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,40}")
_LANE: Final = re.compile(r"lane([1-9][0-9]?)\.")


def lane_of(message_id: str, lanes: int) -> int:
    """The lane of a message, from 0: CRC-32 of its id, as zlib and every other language has it, modulo the lanes."""
    return crc32(message_id.encode()) % lanes


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of one topology. Two topologies with different prefixes stand beside each other on one virtual host.

    `prefix` starts the name of all that delays, `ready` and `dead` are put before a topic, so they end in a separator.
    There are `lanes` wheels side by side, each with a checkpoint queue; `lane` is the one whose names these are, and
    all others (ready, dead, acks, refused) are the same in every lane. ValueError: a name the broker reserves or that
    would make two objects share a name; no such lane.
    """

    prefix: str = "delay"
    ready: str = "ready."
    dead: str = "dead."
    lanes: int = 1
    lane: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.lane < self.lanes <= MOST_LANES:
            raise ValueError(f"lane {self.lane} of {self.lanes}: there are 1 to {MOST_LANES}, counted from 0")
        starts = (f"{self.prefix}.", self.ready, self.dead)
        for start in starts:
            if not _START.fullmatch(start) or start.startswith("amq."):
                raise ValueError(f"{start!r} can not start a name: 1-41 of A-Z a-z 0-9 _ . -, no dot first, not `amq.`")
            if sum(other.startswith(start) for other in starts) > 1:
                raise ValueError(f"names that start with {start!r} can be taken for each other: {starts}")

    @cached_property
    def each_lane(self) -> "tuple[Names, ...]":
        """The names of every lane."""
        return tuple(replace(self, lane=lane) for lane in range(self.lanes))

    def in_lane(self, lane: int) -> "Names":
        """The names of a lane, also of one beyond those there are."""
        return replace(self, lanes=max(self.lanes, lane + 1), lane=lane)

    def lane_for(self, message_id: str) -> "Names":
        """The names of the lane that all copies of a message travel."""
        return self if self.lanes == 1 else self.each_lane[lane_of(message_id, self.lanes)]

    def lane_with(self, queue: str) -> "Names":
        """The names of the lane whose queue this is; those of lane 0 for what every lane shares."""
        start = f"{self.prefix}."
        of_lane = _LANE.match(queue, len(start)) if queue.startswith(start) else None
        lane = int(of_lane[1]) if of_lane else 0
        return self.each_lane[lane if lane < self.lanes else 0]

    @property
    def entry(self) -> str:
        """Topic exchange any AMQP client publishes to, with a wheel key. It starts the names of its lane's wheel."""
        return f"{self.prefix}.lane{self.lane}" if self.lane else self.prefix

    @property
    def due(self) -> str:
        """Topic exchange a message reaches when its whole delay has passed."""
        return f"{self.entry}.due"

    @property
    def checkpoint(self) -> str:
        """Fanout exchange and the queue it feeds: all that is due, and all that found no other way."""
        return f"{self.entry}.checkpoint"

    @property
    def ready_exchange(self) -> str:
        """Topic exchange that feeds the ready queues, routing key = topic."""
        return f"{self.prefix}.ready"

    @property
    def returned(self) -> str:
        """Fanout exchange into which the ready queues dead-letter: their way back to the checkpoint of lane 0.

        It is named after `ready` and not `prefix`, so a ready queue's arguments outlast a change of the prefix.
        """
        return f"{self.ready}returned"

    @property
    def acks(self) -> str:
        """Fanout exchange and the queue it feeds: what AMQP consumers say they have finished."""
        return f"{self.prefix}.acks"

    @property
    def refused(self) -> str:
        """Queue for what the checkpoint can not understand; reached through the default exchange."""
        return f"{self.prefix}.refused"

    def hand(self, hand: str) -> str:
        """Topic exchange of a hand, by the hand's name: `minutes` -> `delay.minutes`, `delay.lane2.minutes`."""
        return f"{self.entry}.{hand}"

    def slot(self, hand: str, value: int) -> str:
        """Queue of one value of a hand: (`minutes`, 30) -> `delay.30m`, (`tenths`, 2) -> `delay.lane2.200ms`."""
        step, unit = _STEPS[hand]
        return f"{self.entry}.{value * step}{unit}"

    def ready_queue(self, topic: str) -> str:
        """Queue the topic's due messages are consumed from."""
        return f"{self.ready}{topic}"

    def dead_queue(self, topic: str) -> str:
        """Queue of what ran out of retries; reached through the default exchange."""
        return f"{self.dead}{topic}"

    def topic_of_ready_queue(self, name: str) -> str | None:
        """The topic whose ready queue this is; None when it is another queue."""
        return self._topic_after(self.ready, name)

    def topic_of_dead_queue(self, name: str) -> str | None:
        """The topic whose dead queue this is; None when it is another queue."""
        return self._topic_after(self.dead, name)

    @staticmethod
    def _topic_after(start: str, name: str) -> str | None:
        topic = name.removeprefix(start)
        return topic if name.startswith(start) and TOPIC.fullmatch(topic) else None
