"""Audits the records: finds messages whose copy is lost and sends them again from the body that Redis keeps.

A copy is lost when somebody purges or deletes its queue. Then the record stays in its state past the moment at which
the copy should have arrived at the checkpoint. The repair publishes a successor (`service/protocol/succession.py`). So
if the old copy appears after all, it is a ghost, and several processes may audit at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic, time
from typing import NoReturn, TypeVar, assert_never

import structlog

from bridge.metrics.loops import LAST_RUN, OVERDUE
from bridge.metrics.messages import EXPIRED, RESENT
from bridge.metrics.topics import LABELS
from bridge.model.errors import StoreUnavailable, Unavailable
from bridge.model.message import CopyKind, Envelope, Record, State, new_nonce
from bridge.model.part_state import OK, Starting, Waiting
from bridge.model.values import Release
from bridge.service.context import Context
from bridge.service.health.supervisor import Loop, Status, retrying
from bridge.service.protocol.steps import Nothing, Step, Succeed, Update
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import later, successor
from bridge.service.reading.portions import portions
from bridge.store import pages
from bridge.store.calls import Call
from bridge.store.messages.outcomes import Looked, Outcome, read_envelope
from bridge.store.messages.verdicts import ChangeVerdict, LookVerdict, NackVerdict, ReturnedVerdict, WeighVerdict

Asked = TypeVar("Asked", bound=Outcome[LookVerdict] | Outcome[WeighVerdict])

log = structlog.get_logger(__name__)

_PASS = 1_000
_PAGE = 100
_RETRY_S = 1.0
_Repair = ChangeVerdict | NackVerdict | ReturnedVerdict
"""The verdicts of the calls that repair a message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Overdue:
    """A message that the audit found without a live copy. `body_kept`: Redis has the body, so the message can be sent
    again. `done`: `resent` if the audit sent the message again, `expired` if it ended the message after its time to
    live, None if it did nothing."""

    record: Record
    overdue_ms: int  # since the moment at which the copy should have arrived
    body_kept: bool
    done: str | None = None


@dataclass(frozen=True, slots=True)
class _Lost:
    """A message whose copy is lost. `kept`: the envelope with its body, from which the message can be sent again; None
    if Redis did not keep the body."""

    overdue: Overdue
    kept: Envelope | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """The result of one pass. `last`: the pass reached the end of the last topic, so the next pass begins with the
    first topic."""

    found: Sequence[Overdue]
    last: bool


class Audit:
    def __init__(self, context: Context, checkpoint: Loop | None = None) -> None:
        """`checkpoint`: the checkpoint of this process; None: the process runs none."""
        self._store = context.store
        self._records = context.records
        self._topics = context.topics
        self._declared = context.broker.declared
        self._succession = Succession.of_copies(context)
        self._every_s = context.settings.audit_every / 1_000
        self._grace_ms = context.settings.audit_grace
        self._checkpoint = checkpoint
        self._part = context.part_name("audit")
        # The copies of messages that fell due while no bridge ran are late, but not lost.
        self._behind_s = -inf if checkpoint is None else monotonic()
        self._topics_left: deque[str] = deque()
        self._cursor: tuple[int, str] | None = None
        self._counts: dict[str, int] = {}
        self._reported: set[str] = set()
        self.status = Status(self._part, state=OK, retry_s=min(_RETRY_S, self._every_s))

    async def run(self) -> NoReturn:
        """Audits for ever, with a pause of BRIDGE_AUDIT_EVERY before each pass. While Redis or RabbitMQ is away, the
        loop tries again every second, or after BRIDGE_AUDIT_EVERY if that is shorter."""
        await asyncio.sleep(self._every_s)
        await retrying(self.status, self._logged)

    async def _logged(self) -> float:
        try:
            done = await self.run_once()
        except Unavailable as error:
            self._behind_s = monotonic()
            if not error.partly:
                self._report({})
            raise
        for overdue in done.found if done is not None else ():
            log.warning(
                "audit.overdue",
                topic=overdue.record.topic,
                id=overdue.record.id,
                overdue_ms=overdue.overdue_ms,
                body_kept=overdue.body_kept,
                done=overdue.done,
            )
        return self._every_s

    async def run_once(self, *, repair: bool = True) -> Pass | None:
        """Audits about a thousand records, from the place where the last pass ended. `repair`: also repairs lost
        messages.

        Returns None while the checkpoint is behind, and for the time BRIDGE_AUDIT_GRACE after that: copies are late
        then, not lost.

        Raises:
            Unavailable: a server did not answer; some messages may be repaired already.
        """
        if await self._behind():
            self._behind_s = monotonic()
            return None
        if (monotonic() - self._behind_s) * 1_000 < self._grace_ms:
            return None
        await self._store.learn_clock()
        if not self._topics_left:
            names = await self._topics.names()
            self._topics_left, self._cursor, self._counts = deque(names), None, dict.fromkeys(names, 0)
        found: list[Overdue] = []
        looked = 0
        while self._topics_left and looked < _PASS:
            topic = self._topics_left[0]
            records, lost = await self._page(topic, repair=repair)
            found += lost
            looked += records
            self._counts[topic] += len(lost)
            if records < _PAGE:
                self._topics_left.popleft()
                self._cursor = None
        if not self._topics_left:
            self._report(LABELS.summed(self._counts))
            LAST_RUN.labels(self._part).set(time())
        return Pass(found=found, last=not self._topics_left)

    def _report(self, counts: Mapping[str, int]) -> None:
        """Sets the gauge of each label in `counts`, and removes other gauges that this audit has set. Gauges of other
        audits stay: a process has one audit for each pool."""
        for label in self._reported - counts.keys():
            OVERDUE.remove(label)
        self._reported = set(counts)
        for label, count in counts.items():
            OVERDUE.labels(label).set(count)

    async def _behind(self) -> bool:
        if self._checkpoint is not None and isinstance(self._checkpoint.status.state, Starting | Waiting):
            return True
        return await self._declared.checkpoint_depth() > 0

    async def _page(self, topic: str, *, repair: bool) -> tuple[int, list[Overdue]]:
        """Audits the topic's next `_PAGE` records. Returns how many records there were, and the lost messages among
        them. `repair`: repairs the lost messages. Reads bodies only of lost messages, in portions of limited bytes."""
        # No bridge sees the messages of a direct topic become ready.
        direct = (await self._topics.policy(topic)).release is Release.DIRECT
        states = (State.LEASED,) if direct else (State.WAITING, State.LEASED)
        entries = await pages.page(
            self._store,
            self._records,
            topic,
            states="".join(str(int(state)) for state in states),
            due_from_ms=0,
            due_to_ms=int(self._store.clock.now_ms()) - self._grace_ms,
            cursor=self._cursor,
            limit=_PAGE,
        )
        if not entries:
            return 0, []
        self._cursor = entries[-1]
        overdue = await self._overdue([self._records.weigh(topic, message_id) for _, message_id in entries], states)
        ahead_ms = self._store.clock.ahead_ms
        weighed = [
            outcome
            for outcome in overdue
            if _overdue_ms(outcome.found, outcome.now_ms) >= self._grace_ms + _excused_ms(outcome.verdict, ahead_ms)
        ]
        found: list[Overdue] = []
        for portion in portions([outcome.extra for outcome in weighed]):
            ids = [outcome.found.id for outcome in weighed[portion]]
            found += await self._look(topic, ids, states, repair=repair)
        return len(entries), found

    async def _look(self, topic: str, ids: Sequence[str], states: Sequence[State], *, repair: bool) -> list[Overdue]:
        """Reads the messages again, with their bodies. Returns the messages that are still lost. `repair`: also repairs
        these messages, and sets `Overdue.done`."""
        looked = await self._overdue([self._records.look(topic, message_id) for message_id in ids], states)
        lost = [_lost(outcome) for outcome in looked]
        return await self._repair(lost) if repair else [message.overdue for message in lost]

    async def _overdue(self, calls: Sequence[Call[Asked]], states: Sequence[State]) -> list[Asked]:
        """Asks Redis about messages. Returns the outcomes of messages in `states` whose copy is late by at least
        BRIDGE_AUDIT_GRACE."""
        return [
            outcome
            for outcome in await self._store.run(calls)
            # A waiting record that is to be forgotten was sent while its topic had direct release.
            if (record := outcome.record) is not None and record.state in states and not record.forget_ms
            if _overdue_ms(record, outcome.now_ms) >= self._grace_ms
        ]

    async def _repair(self, lost: Sequence[_Lost]) -> list[Overdue]:
        """Ends messages whose time to live has passed, and sends other messages again. Returns all of `lost`, each with
        `done` set."""
        now_ms = int(self._store.clock.now_ms())
        steps = [self._step(message, now_ms) for message in lost]
        repaired: list[Overdue] = []
        for message, result in zip(lost, await self._succession.perform(steps), strict=True):
            if isinstance(result, StoreUnavailable):
                raise result
            done = _done(result.verdict) if isinstance(result, Outcome) else None
            if done is not None:
                (RESENT if done == "resent" else EXPIRED).add(message.overdue.record.topic)
            repaired.append(replace(message.overdue, done=done))
        return repaired

    def _step(self, message: _Lost, now_ms: int) -> Step[_Repair]:
        """Returns the step that ends the message if its time to live has passed, or sends it again. The step does
        nothing if Redis did not keep the body of a message to send."""
        record = message.overdue.record
        if 0 < record.expires_ms <= now_ms:
            return Update(self._expired(record))
        if message.kept is None:
            return Nothing()
        nonce = new_nonce()
        # If the retries are used up, the checkpoint finds that out, as when any lease ends.
        copy = successor(record, message.kept, nonce=nonce, attempt=record.attempts + 1, due_ms=now_ms)
        return Succeed(
            announce=self._records.announce(copy, arrives_ms=now_ms, now_ms=now_ms),
            publication=later(copy, now_ms, CopyKind.RETRY),
            name=self._named(record, nonce, now_ms),
        )

    def _named(self, record: Record, nonce: int, due_ms: int) -> Call[Outcome[NackVerdict | ChangeVerdict]]:
        if record.state is State.LEASED:
            return self._records.nack(record, next_nonce=nonce, due_ms=due_ms, reason=record.reason)
        return self._records.change(record, next_nonce=nonce, arrives_ms=due_ms, due_ms=due_ms)

    def _expired(self, record: Record) -> Call[Outcome[ReturnedVerdict]]:
        """Returns the call that ends a message if its time to live has passed; otherwise the call changes nothing. It
        runs `returned.lua`, the script for copies that come back from a queue."""
        copy = successor(record, Envelope(), nonce=record.nonce, attempt=record.attempts, due_ms=record.due_ms)
        return self._records.returned(replace(copy, epoch=record.epoch), by_ttl=False)


def _done(verdict: _Repair) -> str | None:
    """Returns the value of `Overdue.done` for a verdict. None: the record has changed since the audit found it."""
    match verdict:
        case ChangeVerdict.CHANGED | NackVerdict.NACKED:
            return "resent"
        case ReturnedVerdict.EXPIRED:
            return "expired"
        case ChangeVerdict.STALE | ChangeVerdict.UNKNOWN | NackVerdict.STALE | NackVerdict.UNKNOWN:
            return None
        case ReturnedVerdict.RETRY | ReturnedVerdict.BURY | ReturnedVerdict.DELIVERED:
            return None
        case ReturnedVerdict.AHEAD | ReturnedVerdict.GHOST | ReturnedVerdict.ANOTHER:
            return None
        case _:
            assert_never(verdict)


def _excused_ms(verdict: WeighVerdict, ahead_ms: float) -> float:
    """Returns by how many ms a message may be overdue without being lost. `ahead_ms`: an upper bound, in ms: how far
    Redis' clock has jumped ahead since it gave the due moments. After a jump ahead, copies still wait their whole
    delays, so they seem late by that clock."""
    match verdict:
        case WeighVerdict.FOUND:
            return ahead_ms
        case WeighVerdict.INSTANT | WeighVerdict.UNKNOWN:
            return 0
        case _:
            assert_never(verdict)


def _overdue_ms(record: Record, now_ms: int) -> int:
    return now_ms - max(record.due_ms, record.arrives_ms, record.lease_until_ms)


def _lost(looked: Looked) -> _Lost:
    record, envelope = looked.found, read_envelope(looked)
    kept = None if envelope is None or envelope.body is None else envelope
    overdue_ms = _overdue_ms(record, looked.now_ms)
    return _Lost(Overdue(record=record, overdue_ms=overdue_ms, body_kept=kept is not None), kept)
