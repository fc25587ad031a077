"""Holds what all parts of the broker share: the clock, the exchanges and the queues."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from tests.simulate.rabbitmq.clock import Clock
from tests.simulate.rabbitmq.exchanges import Exchanges
from tests.simulate.rabbitmq.versions import Rules

if TYPE_CHECKING:
    from tests.simulate.rabbitmq.message import Message
    from tests.simulate.rabbitmq.queues import Queue


class State:
    """The objects of the one virtual host.

    `dead_letter_window`: how many dead letters a queue hands on at a time, at least once. `dead_letter_retry_ms`: after
    what time it repeats those that no queue has confirmed. `consumer_timeout_ms`: how long a delivery may be
    unacknowledged.
    """

    def __init__(self, rules: Rules, random: Random) -> None:
        self.rules = rules
        self.random = random
        self.clock = Clock()
        self.exchanges = Exchanges()
        self.queues: dict[str, Queue] = {}
        self.dead_letter_window = 32
        self.dead_letter_retry_ms = 180_000.0
        self.consumer_timeout_ms = 1_800_000.0

    def route(self, message: Message) -> list[Queue]:
        """Returns the queues that get the message."""
        return [self.queues[name] for name in self.exchanges.route(message) if name in self.queues]

    def delete_queue(self, queue: Queue) -> None:
        """Deletes a queue with its messages and bindings, and cancels its consumers."""
        if self.queues.pop(queue.name, None) is not None:
            self.exchanges.forget(("queue", queue.name))
            queue.end()

    def new_name(self, prefix: str) -> str:
        """Returns a name that the broker makes up."""
        return f"{prefix}{self.random.getrandbits(96):024x}"
