"""Disturbs single queues of RabbitMQ and their consumers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from tests.events import What
from tests.simulate.faults.target import Fault, Target
from tests.simulate.rabbitmq.message import Message
from tests.torture.topics import CHANGED_CONSUMED, CONSUMED, LETTERS
from topology.wheel import parse_key

_TEXT: Final = re.compile(rb'"([^"\\]+)"')
_OF_A_BRIDGE: Final = ("x-delay-copy", "x-delay-bundle")  # one of these headers
_MANY: Final = 20  # of one kind a seed has no more, most often
_ACKS: Final = "delay.acks"
_OF_TOPICS: Final = ("ready.", "dead.")
_OF_CLIENTS: Final = frozenset(f"ready.{topic}" for topic in (*CONSUMED, CHANGED_CONSUMED, LETTERS))
"""Queues whose AMQP clients do not consume again after the broker has ended their consumers."""


class QueueFaults(Target):
    @property
    def kinds(self) -> Mapping[str, Fault]:
        return {
            "lose leaders": self._lose_leaders,
            "refuse publishes": self._refuse,
            "end consumers": self._cancel,
            "time out consumers": self._time_out,
            "delete queues": self._delete,
        }

    def _drawn(self, most: int) -> list[str]:
        """Draws up to so many queues: among the slots that have messages, among the ready queues, among those with
        messages or consumers, or among all."""
        queues = [*self._stage.rabbit.broker.state.queues.values()]
        used = [queue for queue in queues if queue.depth or queue.consumers]
        slots = [queue for queue in used if not queue.consumers and not queue.name.startswith(_OF_TOPICS)]
        ready = [queue for queue in queues if queue.name.startswith("ready.")]
        names = [queue.name for queue in self._random.choice((slots, ready, used, queues))]
        return self._random.sample(names, min(len(names), self._random.randint(1, most)))

    async def _lose_leaders(self) -> None:
        """Some queues answer nothing until a leader is elected."""
        names = self._drawn(_MANY)
        self._note(f"without a leader: {', '.join(names)}")
        with self._broker() as broker:
            for name in names:
                broker.lose_leader(name)
        await self._wait(0.3, 5.0)
        with self._broker() as broker:
            for name in names:
                if name in broker.state.queues:
                    broker.elect_leader(name)

    async def _refuse(self) -> None:
        """Some queues refuse all messages, as a full queue does."""
        names = self._drawn(_MANY)
        self._note(f"refuse: {', '.join(names)}")
        with self._broker() as broker:
            for name in names:
                broker.refuse(name)
        await self._wait(0.3, 5.0)
        with self._broker() as broker:
            for name in names:
                if name in broker.state.queues:
                    broker.refuse(name, refuses=False)

    async def _cancel(self) -> None:
        """RabbitMQ ends the consumers of some queues with `basic.cancel`."""
        with self._broker() as broker:
            consumed = [one.name for one in broker.state.queues.values() if one.consumers]
            for name in consumed:
                if name not in _OF_CLIENTS and self._random.random() < 0.5:
                    self._note(f"the consumers of {name} end")
                    broker.cancel(name)

    async def _time_out(self) -> None:
        """RabbitMQ closes the channels that have kept a delivery for too long."""
        with self._broker() as broker:
            broker.time_out(self._random.choice((0.0, 500.0, 2_000.0)))

    async def _delete(self) -> None:
        """An operator deletes some queues that have a leader."""
        with self._broker() as broker:
            for name in self._drawn(3):
                if name in _OF_CLIENTS or not broker.state.queues[name].leader.is_there:
                    continue
                self._note(f"{name} is deleted")
                if name == _ACKS:
                    self._stage.lost_acks.update(map(_ack_of, self._messages(name)))
                self._note_lost(self._lost_with(name))
                self._stage.may_lack_copies = True
                broker.delete(name)

    def _lost_with(self, name: str) -> Iterator[Message]:
        """Yields the messages that nobody can send again if the queue is deleted.

        "The audit can't repair messages of a ready queue or on direct release" (docs/guarantees.md). An AMQP client's
        own message has no record yet. A process that has read a due copy may release it. If it dies before, its record
        says that the message is ready.
        """
        broker = self._stage.rabbit.broker
        if name.startswith("ready."):
            yield from self._messages(name)
        elif not name.startswith("dead."):
            yield from broker.unacknowledged(name)
            yield from (one for one in broker.state.queues[name].messages() if not _sent_again(one))

    def _messages(self, name: str) -> list[Message]:
        """Returns all messages of a queue, also those of its consumers."""
        broker = self._stage.rabbit.broker
        return [*broker.state.queues[name].messages(), *broker.unacknowledged(name)]

    def _note_lost(self, messages: Iterable[Message]) -> None:
        """Notes that these messages are not owed any more. A message of this simulation has its key as a JSON text."""
        found = {text.decode() for message in messages for text in _TEXT.findall(message.body)}
        for history in self._histories:
            for key in dict.fromkeys(event.message_id for event in history.events):
                if key in found:
                    history.note(key, What.DELETING)


def _ack_of(message: Message) -> tuple[str, str]:
    """Returns the topic and the id of the message that an ack is to end."""
    return message.keys[0], message.properties.short("message_id") or ""


def _sent_again(message: Message) -> bool:
    """Whether the audit sends a waiting message again. It passes the checkpoint, so its key names a kind."""
    is_of_a_bridge = any(header in message.properties.headers.entries for header in _OF_A_BRIDGE)
    key = parse_key(message.keys[0])
    return is_of_a_bridge and key is not None and key.kind is not None
