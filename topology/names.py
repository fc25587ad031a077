"""Every name that stands on the broker, in one place."""

import re
from dataclasses import dataclass
from typing import Final

_PART: Final = r"[A-Za-z0-9_.-]{1,100}"

TOPIC: Final = re.compile(rf"{_PART}(?:/{_PART})?")
"""A topic: `orders`, or `namespace/orders`. It may hold dots; it can hold neither `*`, `#` nor `!`."""

KIND: Final = re.compile(r"[a-z]{1,20}")
"""The kind of a copy, the word after `!` in a routing key: `lease`, `retry`."""

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


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of one topology. Two topologies with different prefixes stand beside each other on one virtual host.

    `prefix` starts the name of all that delays, `ready` and `dead` are put before a topic, so they end in a separator.
    ValueError: a name the broker reserves or that would make two objects share a name.
    """

    prefix: str = "delay"
    ready: str = "ready."
    dead: str = "dead."

    def __post_init__(self) -> None:
        starts = (f"{self.prefix}.", self.ready, self.dead)
        for start in starts:
            if not _START.fullmatch(start) or start.startswith("amq."):
                raise ValueError(f"{start!r} can not start a name: 1-41 of A-Z a-z 0-9 _ . -, no dot first, not `amq.`")
            if sum(other.startswith(start) for other in starts) > 1:
                raise ValueError(f"names that start with {start!r} can be taken for each other: {starts}")

    @property
    def entry(self) -> str:
        """Topic exchange any AMQP client publishes to, with a wheel key."""
        return self.prefix

    @property
    def due(self) -> str:
        """Topic exchange a message reaches when its whole delay has passed."""
        return f"{self.prefix}.due"

    @property
    def checkpoint(self) -> str:
        """Fanout exchange and the queue it feeds: all that is due, and all that found no other way."""
        return f"{self.prefix}.checkpoint"

    @property
    def ready_exchange(self) -> str:
        """Topic exchange that feeds the ready queues, routing key = topic."""
        return f"{self.prefix}.ready"

    @property
    def returned(self) -> str:
        """Fanout exchange into which the ready queues dead-letter: their way back to the checkpoint.

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
        """Topic exchange of a hand, by the hand's name: `minutes` -> `delay.minutes`."""
        return f"{self.prefix}.{hand}"

    def slot(self, hand: str, value: int) -> str:
        """Queue of one value of a hand: (`minutes`, 30) -> `delay.30m`, (`tenths`, 2) -> `delay.200ms`."""
        step, unit = _STEPS[hand]
        return f"{self.prefix}.{value * step}{unit}"

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
