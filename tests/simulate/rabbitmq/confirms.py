"""Confirms the publishes of one channel, in groups as RabbitMQ does."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random

from pamqp.base import Frame
from pamqp.commands import Basic


class Confirms:
    """The publishes of a channel that await an answer. `select` switches confirms on.

    Queues answer in any order. An answer of one queue covers with `multiple` all earlier publishes, if none of them
    awaits an answer.
    """

    def __init__(self, write: Callable[[Frame], None], random: Random, answered: Callable[[], None]) -> None:
        """`answered`: called when `flush` has something to write."""
        self._write = write
        self._random = random
        self._notify = answered
        self._is_on = False
        self._tag = 0
        self._left: dict[int, int] = {}
        self._refused: set[int] = set()
        self._answers: dict[str, list[int]] = {}

    def select(self) -> None:
        self._is_on = True

    def begin(self, queues: int) -> Callable[[str, bool], None]:
        """Notes a publish to this many queues. Returns the function that takes the answer of each, by its name. A
        publish to no queue is confirmed."""
        if not self._is_on:
            return _ignore
        self._tag += 1
        tag = self._tag
        self._left[tag] = max(1, queues)

        def answered(queue: str, accepted: bool) -> None:
            if not accepted:
                self._refused.add(tag)
            self._left[tag] -= 1
            if not self._left[tag]:
                self._answers.setdefault(queue, []).append(tag)
                self._notify()

        if not queues:
            answered("", True)
        return answered

    def flush(self) -> None:
        """Writes all answers, queue by queue."""
        groups = [*self._answers.values()]
        self._answers.clear()
        self._random.shuffle(groups)
        for group in groups:
            acks, nacks = _parted(group, self._refused)
            self._answer(nacks, Basic.Nack, others=acks)
            self._answer(acks, Basic.Ack, others=())

    def _answer(self, tags: list[int], kind: type[Basic.Ack] | type[Basic.Nack], *, others: Iterable[int]) -> None:
        for tag in tags:
            del self._left[tag]
            self._refused.discard(tag)
        first_left = min(next(iter(self._left), self._tag + 1), *others, self._tag + 1)
        together = [tag for tag in tags if tag < first_left]
        if together:
            self._write(kind(delivery_tag=max(together), multiple=len(together) > 1))
        for tag in tags:
            if tag >= first_left:
                self._write(kind(delivery_tag=tag, multiple=False))


def _parted(tags: list[int], refused: set[int]) -> tuple[list[int], list[int]]:
    return sorted(tag for tag in tags if tag not in refused), sorted(tag for tag in tags if tag in refused)


def _ignore(queue: str, accepted: bool) -> None:
    """Takes the answer to a publish of a channel without confirms."""
