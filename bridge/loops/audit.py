"""The audit: finds messages whose copy is lost, and sends them again from what is kept of them.

A copy is lost when somebody purges or deletes the queue it stands in. Its record is then past the moment at which the
copy was to arrive at the checkpoint, and stays so. The repair is a successor like any other: it is published, then
named. So a copy that turns up after all is a ghost, and several processes may audit at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from time import monotonic

import structlog

from bridge import metrics
from bridge.model.errors import StoreUnavailable, Unavailable
from bridge.model.message import CopyKind, Envelope, Record, State, new_nonce
from bridge.model.values import Release
from bridge.service.context import Context
from bridge.service.succession import Step, Succession
from bridge.service.successors import later, successor
from bridge.service.supervisor import Loop, waiting
from bridge.store import pages
from bridge.store.calls import Call
from bridge.store.records import Outcome, read, read_envelope
from bridge.store.verdicts import Verdict

log = structlog.get_logger(__name__)

_PASS = 1_000
_PAGE = 100
_RETRY_S = 1.0
_DONE = {Verdict.MOVED: "resent", Verdict.NACKED: "resent", Verdict.EXPIRED: "expired"}


@dataclass(frozen=True, kw_only=True, slots=True)
class Overdue:
    """A message with no live copy, as it was found. `done`: resent, expired (its time to live has passed), or None."""

    record: Record
    overdue_ms: int  # since its copy was to arrive
    body_kept: bool
    done: str | None = None


@dataclass(frozen=True, slots=True)
class _Lost:
    """`kept`: what can be sent again."""

    overdue: Overdue
    kept: Envelope | None

    @property
    def record(self) -> Record:
        return self.overdue.record


@dataclass(frozen=True, kw_only=True, slots=True)
class Pass:
    """`last`: the pass reached the end of the last topic; the next one begins anew."""

    found: Sequence[Overdue]
    last: bool


class Audit:
    name = "audit"

    def __init__(self, context: Context, checkpoint: Loop | None = None) -> None:
        """`checkpoint` is that of this process, where one runs."""
        self._store = context.store
        self._records = context.records
        self._topics = context.topics
        self._declared = context.broker.declared
        self._succession = Succession(context.store, context.broker.releases)
        self._every_s = context.settings.audit_every / 1_000
        self._grace_ms = context.settings.audit_grace
        self._checkpoint = checkpoint
        # What fell due while no bridge ran comes late.
        self._behind_s = -inf if checkpoint is None else monotonic()
        self._left: deque[str] = deque()
        self._cursor: tuple[int, str] | None = None
        self._counts: dict[str, int] = {}
        self._told: set[str] = set()
        self.state = "ok"

    async def run(self) -> None:
        """Runs for ever; what goes away is waited for."""
        while True:
            await asyncio.sleep(self._every_s if self.state == "ok" else min(_RETRY_S, self._every_s))
            try:
                done = await self.run_once()
                self.state = "ok"
            except Unavailable as error:
                self._behind_s = monotonic()
                self.state = waiting(error)
                log.warning("audit.waiting", reason=str(error))
                continue
            for one in done.found if done is not None else ():
                log.warning(
                    "audit.overdue",
                    topic=one.record.topic,
                    id=one.record.id,
                    overdue_ms=one.overdue_ms,
                    body_kept=one.body_kept,
                    done=one.done,
                )

    async def run_once(self, *, repair: bool = True) -> Pass | None:
        """Looks at up to a thousand records, going on where the last pass ended. None: the checkpoint is behind, or
        was so less than the grace ago, and copies are late rather than lost.

        Raises:
            Unavailable: some may be repaired.
        """
        if await self._behind():
            self._behind_s = monotonic()
            return None
        if (monotonic() - self._behind_s) * 1_000 < self._grace_ms:
            return None
        await self._store.learn_clock()
        if not self._left:
            names = await self._topics.names()
            self._left, self._cursor, self._counts = deque(names), None, dict.fromkeys(names, 0)
        found: list[Overdue] = []
        looked = 0
        while self._left and looked < _PASS:
            topic = self._left[0]
            ids, lost = await self._page(topic)
            found += await self._repair(lost) if repair else [one.overdue for one in lost]
            looked += len(ids)
            self._counts[topic] += len(lost)
            if len(ids) < _PAGE:
                self._left.popleft()
                self._cursor = None
        if not self._left:
            for topic in self._told - self._counts.keys():
                metrics.OVERDUE.remove(topic)
            self._told = set(self._counts)
            for topic, count in self._counts.items():
                metrics.OVERDUE.labels(topic).set(count)
        return Pass(found=found, last=not self._left)

    async def _behind(self) -> bool:
        if self._checkpoint is not None and self._checkpoint.state != "ok":
            return True
        return await self._declared.checkpoint_depth() > 0

    async def _page(self, topic: str) -> tuple[list[str], list[_Lost]]:
        """The next ids of the topic, and what is lost of them."""
        # No bridge sees a direct topic's messages become ready.
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
        ids = [message_id for _, message_id in entries]
        lost: list[_Lost] = []
        if ids:
            self._cursor = entries[-1]
            answers = await self._store.run([self._records.look(topic, one) for one in ids])
            for outcome in (read(topic, one, answer) for one, answer in zip(ids, answers, strict=True)):
                record = outcome.record
                # One that waits and has a moment to be forgotten was sent while its topic was direct.
                if record is None or record.state not in states or record.forget_ms:
                    continue
                overdue_ms = outcome.now_ms - max(record.due_ms, record.arrives_ms, record.lease_until_ms)
                if overdue_ms >= self._grace_ms:
                    envelope = read_envelope(outcome)
                    kept = None if envelope is None or envelope.body is None else envelope
                    lost.append(_Lost(Overdue(record=record, overdue_ms=overdue_ms, body_kept=kept is not None), kept))
        return ids, lost

    async def _repair(self, lost: Sequence[_Lost]) -> list[Overdue]:
        """Ends messages whose time to live has passed and sends the others again. Returns what was done with each."""
        now_ms = int(self._store.clock.now_ms())
        steps = [self._step(one, now_ms) for one in lost]
        repaired: list[Overdue] = []
        for one, result in zip(lost, await self._succession.perform(steps), strict=True):
            if isinstance(result, StoreUnavailable):
                raise result
            done = _DONE.get(result.verdict) if isinstance(result, Outcome) else None
            if done is not None:
                (metrics.RESENT if done == "resent" else metrics.EXPIRED).add(one.record.topic)
            repaired.append(replace(one.overdue, done=done))
        return repaired

    def _step(self, one: _Lost, now_ms: int) -> Step:
        """The repair of one message; an empty step where its body was not kept."""
        record = one.record
        if 0 < record.expires_ms <= now_ms:
            return Step(name=self._expired(record))
        if one.kept is None:
            return Step()
        nonce = new_nonce()
        # The checkpoint finds out that the retries are used up, as for any lease that ends.
        copy = successor(record, one.kept, nonce=nonce, attempt=record.attempts + 1, due_ms=now_ms)
        return Step(publication=later(copy, now_ms, CopyKind.RETRY), name=self._named(record, nonce, now_ms))

    def _named(self, record: Record, nonce: int, due_ms: int) -> Call:
        if record.state is State.LEASED:
            return self._records.nack(record, next_nonce=nonce, due_ms=due_ms, reason=record.reason, ready=False)
        return self._records.move(record, next_nonce=nonce, due_ms=due_ms, ready=False)

    def _expired(self, record: Record) -> Call:
        """Asks as if the copy had come back: that ends what is past its time to live, and changes nothing else."""
        copy = successor(record, Envelope(), nonce=record.nonce, attempt=record.attempts, due_ms=record.due_ms)
        return self._records.returned(replace(copy, epoch=record.epoch), by_ttl=False)
