"""Names every object on the broker."""

import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import Final
from zlib import crc32

_PART: Final = r"[A-Za-z0-9_.-]{1,100}"

TOPIC: Final = re.compile(rf"{_PART}(?:/{_PART})?")
"""Matches a topic: `orders` or `namespace/orders`. A topic may contain dots, but no `*`, `#` or `!`."""

KIND: Final = re.compile(r"[a-z]{1,20}(?:-(?:bundle|parcel))?")
"""Matches the word after `!` in a routing key: the kind of a copy, such as `lease`, or of a bundle. `lease-bundle` is a
bundle of copies of the kind `lease`. Earlier versions wrote `-parcel` for `-bundle`, and such a bundle may wait for
months."""

_EXCHANGES: Final = "exchanges"

LONGEST_NAME: Final = 255
"""The most bytes of an exchange's name and of a routing key: RabbitMQ's limit, which is the longest short text of
AMQP."""

MOST_LANES: Final = 64
"""The most lanes. A lane has 178 quorum queues, and a cluster must elect a leader for each after a restart."""

# By hand: the size of one step, and the wait of a slot as text. Each place before the slot's own is written as 0, so
# these texts sort by duration.
_WAITS: Final = {
    "hundreds-of-days": (100, "{:03}d"),
    "tens-of-days": (10, "{:03}d"),
    "days": (1, "{:03}d"),
    "hours": (1, "000d-{:02}h"),
    "minutes": (1, "000d-00h-{:02}m"),
    "seconds": (1, "000d-00h-00m-{:02}s"),
    "tenths": (1, "000d-00h-00m-00.{}s"),
}

_START: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,40}")
_LANE: Final = re.compile(r"lane([1-9][0-9]?)\.")


def lane_of(message_id: str, lanes: int) -> int:
    """Returns the lane of a message, counted from 0: the CRC-32 of its id modulo the number of lanes. The CRC-32 is
    zlib's, so clients in every language can compute it."""
    return crc32(message_id.encode()) % lanes


@dataclass(frozen=True, kw_only=True)
class Names:
    """The names of one topology. Topologies with different prefixes can share one virtual host.

    `prefix` starts the names of the wheel. `ready` and `dead` start the names of ready and dead queues. The topic
    follows directly, so both end in a separator. There are `lanes` wheels, each with a checkpoint queue. The wheel's
    names are those of lane number `lane`. The other names (ready, dead, acks, refused, ingress, unroutable, probes) are
    equal in every lane.

    Raises:
        ValueError: the broker reserves a name, two objects would share a name, or there is no such lane.
    """

    prefix: str = "delay"
    ready: str = "ready."
    dead: str = "dead."
    lanes: int = 1
    lane: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.lane < self.lanes <= MOST_LANES:
            raise ValueError(
                f"lane {self.lane} of {self.lanes} can't exist: there are 1 to {MOST_LANES} lanes, counted from 0"
            )
        starts = (f"{self.prefix}.", self.ready, self.dead)
        for start in starts:
            if not _START.fullmatch(start) or start.startswith("amq."):
                raise ValueError(
                    f"{start!r} can't start a name: it must be 1 to 41 of A-Z a-z 0-9 _ . -, and must not begin"
                    " with a dot or `amq.`"
                )
            if sum(other.startswith(start) for other in starts) > 1:
                raise ValueError(f"no prefix may begin with another one, but {start!r} begins two of {starts}")

    @cached_property
    def each_lane(self) -> "tuple[Names, ...]":
        """The names of every lane, by the lane's number."""
        return tuple(replace(self, lane=lane) for lane in range(self.lanes))

    def in_lane(self, lane: int) -> "Names":
        """Returns the names of a lane. If `lane` is not below `lanes`, the result has `lane` + 1 lanes."""
        return replace(self, lanes=max(self.lanes, lane + 1), lane=lane)

    def lane_for(self, message_id: str) -> "Names":
        """Returns the names of the lane that all copies of a message take."""
        return self if self.lanes == 1 else self.each_lane[lane_of(message_id, self.lanes)]

    def lane_with(self, queue: str) -> "Names":
        """Returns the names of the lane that the queue belongs to. For a queue that all lanes share, returns the names
        of lane 0."""
        start = f"{self.prefix}."
        of_lane = _LANE.match(queue, len(start)) if queue.startswith(start) else None
        lane = int(of_lane[1]) if of_lane else 0
        return self.each_lane[lane if lane < self.lanes else 0]

    @property
    def entry(self) -> str:
        """Topic exchange that AMQP clients publish to with a wheel key. The names of the other objects of the lane's
        wheel begin with the name of this exchange."""
        return f"{self.prefix}.lane{self.lane}" if self.lane else self.prefix

    @property
    def due(self) -> str:
        """Topic exchange that a message reaches when its whole delay has passed."""
        return f"{self.entry}.due"

    @property
    def checkpoint(self) -> str:
        """Fanout exchange and the queue that it feeds. They get due messages, and messages whose key no binding
        matches. The checkpoint of lane 0 also gets the messages that ready queues and the ingress queue dead-letter."""
        return f"{self.entry}.checkpoint"

    @property
    def ready_exchange(self) -> str:
        """Topic exchange that feeds the ready queues, routing key = topic."""
        return f"{self.prefix}.ready"

    @property
    def returned(self) -> str:
        """Fanout exchange to which the ready queues dead-letter. It leads to the checkpoint of lane 0.

        Its name begins with `ready` and not `prefix`, so a change of the prefix does not change a ready queue's
        arguments.
        """
        return f"{self.ready}returned"

    @property
    def acks(self) -> str:
        """Fanout exchange and the queue that it feeds. They get the acks that AMQP consumers publish. A bridge records
        these acks in Redis."""
        return f"{self.prefix}.acks"

    @property
    def done(self) -> str:
        """Topic exchange that leads to `acks`, routing key = topic. Only on a topic exchange can RabbitMQ restrict a
        user to certain routing keys."""
        return f"{self.prefix}.done"

    @property
    def refused(self) -> str:
        """Queue for messages that a bridge can't handle, each with a reason. Bridges publish to it through the default
        exchange."""
        return f"{self.prefix}.refused"

    @property
    def ingress(self) -> str:
        """Topic exchange that AMQP clients publish to with a topic as key, and the queue that it feeds. They get
        messages whose delay is in a header."""
        return f"{self.prefix}.in"

    def ingress_of(self, exchange: str) -> str:
        """Returns the name of the ingress exchange of `exchange`: a topic exchange for delayed messages to `exchange`.
        The ingress exchange feeds the queue `ingress`. When a message's delay has passed, a bridge publishes the
        message to `exchange`.

        Raises:
            ValueError: `exchange` is empty or too long.
        """
        name = f"{self.ingress}.{exchange}"
        if not exchange or len(name.encode()) > LONGEST_NAME:
            raise ValueError(f"{name!r} can't be an exchange: it must have a name, and at most {LONGEST_NAME} bytes")
        return name

    def topic_of_exchange(self, exchange: str) -> str:
        """Returns the topic of the messages for an exchange: `exchanges/` and the exchange's name. A digest replaces a
        name that no topic can have."""
        if re.fullmatch(_PART, exchange):
            return f"{_EXCHANGES}/{exchange}"
        return f"{_EXCHANGES}/x-{sha256(exchange.encode()).hexdigest()[:32]}"

    def delayed_exchange(self, ingress: str) -> str | None:
        """Returns the exchange whose ingress has this name. None: it is no name that `ingress_of` returns."""
        start = f"{self.ingress}."
        return ingress.removeprefix(start) if ingress.startswith(start) and ingress != start else None

    @property
    def unroutable(self) -> str:
        """Queue for dead letters that their target (an exchange and a routing key) did not take. Bridges publish to it
        through the default exchange."""
        return f"{self.prefix}.unroutable"

    @property
    def probes(self) -> tuple[str, str]:
        """Two queues that bridges publish to, to see whether RabbitMQ confirms: one of them may have lost its leader.
        Each keeps only its latest message, which is empty. Nobody consumes them."""
        return f"{self.prefix}.probe.0", f"{self.prefix}.probe.1"

    def owns_exchange(self, exchange: str) -> bool:
        """Returns whether the exchange is the bridge's own, so that messages to it come to a bridge."""
        return exchange in (self.prefix, self.returned) or exchange.startswith(f"{self.prefix}.")

    def hand(self, hand: str) -> str:
        """Returns the name of a hand's topic exchange: `minutes` -> `delay.minutes`, or `delay.lane2.minutes` in lane
        2."""
        return f"{self.entry}.{hand}"

    def slot(self, hand: str, value: int) -> str:
        """Returns the name of the queue for one value of a hand. Sorted by name, the slots of a lane are in the order
        of their waits.

        (`days`, 3) -> `delay.003d`, (`minutes`, 30) -> `delay.000d-00h-30m`, (`tenths`, 2) ->
        `delay.lane2.000d-00h-00m-00.2s` in lane 2.
        """
        return f"{self.entry}.{_wait(hand, value)}"

    def ready_queue(self, topic: str) -> str:
        """Returns the name of the queue from which consumers take the topic's due messages."""
        return f"{self.ready}{topic}"

    def dead_queue(self, topic: str) -> str:
        """Returns the name of the queue for the topic's messages without retries left. Bridges publish to this queue
        through the default exchange."""
        return f"{self.dead}{topic}"

    def topic_of_ready_queue(self, name: str) -> str | None:
        """Returns the topic whose ready queue has this name. None: the name is no ready queue's."""
        return self._topic_after(self.ready, name)

    def topic_of_dead_queue(self, name: str) -> str | None:
        """Returns the topic whose dead queue has this name. None: the name is no dead queue's."""
        return self._topic_after(self.dead, name)

    @staticmethod
    def _topic_after(start: str, name: str) -> str | None:
        topic = name.removeprefix(start)
        return topic if name.startswith(start) and TOPIC.fullmatch(topic) else None


@lru_cache(maxsize=256)
def _wait(hand: str, value: int) -> str:
    step, wait = _WAITS[hand]
    return wait.format(value * step)
