"""Makes dead letters, and hands them on: once without a confirm, or until their new queues have confirmed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.simulate.rabbitmq.clock import Timer
from tests.simulate.rabbitmq.message import Death, Message, cc_keys
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.tables import Table, array, seconds, text, whole
from tests.simulate.rabbitmq.versions import Rules

if TYPE_CHECKING:
    from tests.simulate.rabbitmq.queues import Queue

_REJECTED = "rejected"


def dead_letter(
    message: Message, *, queue: str, reason: str, exchange: str, key: str | None, now_ms: float, rules: Rules
) -> Message:
    """Returns the message as it leaves a queue. `exchange`, `key`: the queue's dead-letter exchange and routing key."""
    own, further = message.keys[0], cc_keys(message.properties.headers)
    latest = Death(
        queue=queue,
        reason=reason,
        exchange=message.exchange,
        keys=(own, *further),
        count=1,
        time_s=int(now_ms // 1_000),
        expiration=message.properties.short("expiration"),
    )
    former = _deaths_of(message, rules)
    same = next((death for death in former if (death.queue, death.reason) == (queue, reason)), None)
    if same is not None:
        latest = replace(same, count=same.count + 1)
    deaths = (latest, *(death for death in former if death is not same))
    changes: dict[str, bytes | None] = {"x-death": array(_encoded(death) for death in deaths)}
    if not former:
        changes |= _about("first", queue, reason, message.exchange)
    if rules.last_death:
        changes |= _about("last", queue, reason, message.exchange)
    if key is not None and rules.drops_cc:
        changes["CC"] = None
    return replace(
        message,
        exchange=exchange,
        keys=message.keys if key is None else (key,),
        properties=message.properties.with_headers(changes, expires=False),
        deaths=deaths,
    )


def _about(which: str, queue: str, reason: str, exchange: str) -> dict[str, bytes]:
    about = {"exchange": exchange, "queue": queue, "reason": reason}
    return {f"x-{which}-death-{what}": text(value) for what, value in about.items()}


def _encoded(death: Death) -> bytes:
    entries = {
        "count": whole(death.count),
        "reason": text(death.reason),
        "queue": text(death.queue),
        "time": seconds(death.time_s),
        "exchange": text(death.exchange),
        "routing-keys": array(map(text, death.keys)),
    }
    if death.expiration is not None:
        entries["original-expiration"] = text(death.expiration)
    return b"F" + Table(entries).encode()


def _deaths_of(message: Message, rules: Rules) -> tuple[Death, ...]:
    if message.deaths is not None or not rules.believes_deaths:
        return message.deaths or ()
    entries = message.properties.headers.value("x-death")
    return tuple(_read(entry) for entry in entries if isinstance(entry, dict)) if isinstance(entries, list) else ()


def _read(entry: dict[str, Any]) -> Death:
    """Reads a death that a client has written."""
    time = entry.get("time")
    return Death(
        queue=str(entry.get("queue", "")),
        reason=str(entry.get("reason", "")),
        exchange=str(entry.get("exchange", "")),
        keys=tuple(map(str, entry.get("routing-keys") or ())),
        count=int(entry.get("count", 1)),
        time_s=int(time.timestamp()) if isinstance(time, datetime) else 0,
        expiration=entry.get("original-expiration"),
    )


def without_cycles(letter: Message, queues: Sequence[Queue], reason: str) -> list[Queue]:
    """Returns the queues in which the dead letter has not died before, unless it was rejected since."""
    if reason == _REJECTED:
        return [*queues]
    return [queue for queue in queues if not _is_cycle(queue.name, letter.deaths or ())]


def _is_cycle(queue: str, deaths: Sequence[Death]) -> bool:
    for death in deaths:
        if death.reason == _REJECTED:
            return False
        if death.queue == queue:
            return True
    return False


@dataclass(slots=True, eq=False)
class _Letter:
    """A dead letter on its way. `unconfirmed`: the queues that have it and have not answered. `refused_by`: those that
    have refused it."""

    message: Message
    reason: str
    unconfirmed: set[str]
    refused_by: set[str]
    is_routed: bool = False


class Forwarder:
    """Hands on the dead letters of one queue at least once: each leaves when all its new queues have confirmed it.

    A letter without a new queue keeps its slot of the window, and so does a refused one. Both are tried again later.
    """

    def __init__(self, state: State, make: Callable[[Message, str], Message]) -> None:
        """`make`: returns the dead letter of a message and a reason."""
        self._state = state
        self._make = make
        self._waiting: deque[tuple[Message, str]] = deque()
        self._window: dict[_Letter, None] = {}
        self._retry: Timer | None = None
        self._is_busy = False

    def __len__(self) -> int:
        return len(self._waiting) + len(self._window)

    def messages(self) -> list[Message]:
        return [*(message for message, _ in self._waiting), *(letter.message for letter in self._window)]

    def add(self, message: Message, reason: str) -> None:
        self._waiting.append((message, reason))
        self._go_on()

    def end(self) -> None:
        """Drops all letters, as their queue is deleted."""
        self._waiting.clear()
        self._window.clear()
        if self._retry is not None:
            self._retry.cancel()

    def _go_on(self) -> None:
        if self._is_busy:
            return
        self._is_busy = True
        while self._waiting and len(self._window) < self._state.dead_letter_window:
            message, reason = self._waiting.popleft()
            letter = _Letter(self._make(message, reason), reason, set(), set())
            self._window[letter] = None
            self._forward(letter)
        self._is_busy = False
        if self._window and (self._retry is None or self._retry.cancelled):
            clock = self._state.clock
            self._retry = clock.at(clock.now_ms + self._state.dead_letter_retry_ms, self._again)

    def _again(self) -> None:
        self._retry = None
        for letter in [*self._window]:
            if not letter.is_routed or letter.refused_by:
                self._forward(letter)
        self._go_on()

    def _forward(self, letter: _Letter) -> None:
        queues = without_cycles(letter.message, self._state.route(letter.message), letter.reason)
        if letter.refused_by:
            queues = [queue for queue in queues if queue.name in letter.refused_by]
        letter.is_routed = bool(queues)
        letter.refused_by.clear()
        letter.unconfirmed |= {queue.name for queue in queues}
        for queue in queues:
            queue.enqueue(letter.message, partial(self._answered, letter, queue.name))

    def _answered(self, letter: _Letter, queue: str, accepted: bool) -> None:
        letter.unconfirmed.discard(queue)
        if not accepted:
            letter.refused_by.add(queue)
        if not letter.unconfirmed and not letter.refused_by:
            self._window.pop(letter, None)
            if not self._window and self._retry is not None:
                self._retry.cancel()
            self._go_on()
