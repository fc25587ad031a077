"""Handles a batch of copies at the checkpoint: asks Redis, keeps bodies, publishes and names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import compress
from math import ceil
from time import monotonic
from typing import cast

import structlog

from bridge.broker.copies.classify import Due, Returned
from bridge.broker.publications import Publication, Route, short_ms
from bridge.loops.checkpoint.verdicts import (
    ADOPT_AFTER_ASKED,
    Asked,
    Decision,
    Named,
    after_fire,
    after_return,
    count_of,
    undelivered,
)
from bridge.metrics.messages import DEAD, EXPIRED, GHOSTS, LEASES_EXPIRED, RETRIED, released
from bridge.model.errors import (
    BrokerUnavailable,
    NotPublished,
    StoreUnavailable,
    Unavailable,
    Undeclarable,
    UnnamedVerdict,
    Unpublishable,
    Unroutable,
)
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, CopyKind
from bridge.model.values import Effective
from bridge.service.context import Context
from bridge.service.protocol.arrivals import Arrivals, is_awaited
from bridge.service.protocol.kept_bodies import keep_body_max
from bridge.service.protocol.succession import Result, Succession
from bridge.service.protocol.successors import completed
from bridge.service.protocol.superseded import superseded
from bridge.store.calls import Call
from bridge.store.messages import envelopes
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import AHEAD_MS
from bridge.store.messages.verdicts import FireVerdict, KeepVerdict, ReturnedVerdict

log = structlog.get_logger(__name__)

RETRY_MS = 500  # the pause before a copy that could not be published is tried again
_UNNAMED_MS = 5_000  # the pause before Redis is asked again, if this version has no rule for its answer
_UNDECLARABLE_MS = 30_000  # the pause before RabbitMQ is asked again for a queue that it refuses
_STEP_MS = 1_000  # if a clock is wrong by less, the checkpoint simply waits
_PAUSED_MS = 5_000  # the pause before Redis is asked again about a due copy of a paused topic


NAMED_KINDS = frozenset((CopyKind.PLAIN, CopyKind.CHECKED, CopyKind.LEASE, CopyKind.RETRY))
"""The kinds whose copies belong to messages that a record has named before. A `MOVE` copy is not among them: it may be
of a replacement that no record has named."""

_RELEASES = frozenset((Route.READY, Route.TARGET))

Item = Due | Returned
"""A copy at the checkpoint, with its delivery tag."""


@fast_dataclass(frozen=True, slots=True)
class Done:
    """The result of a batch. `done`: delivery tags to acknowledge. `held`: copies to ask Redis about again, each with
    the moment in Unix ms. `refused`: copies that can't be published, each with the reason."""

    done: list[int]
    held: list[tuple[Item, float]]
    refused: list[tuple[Item, str]]


class Batches:
    def __init__(self, context: Context, lane: int) -> None:
        self._lane = lane
        self._store = context.store
        self._records = context.records
        self._succession = Succession(context.store, context.broker.releases)
        self._arrivals = Arrivals(context)
        self._copy_publisher = context.broker.releases
        self._declared = context.broker.declared
        self._topics = context.topics
        self._settings = context.settings

    async def process(self, items: Sequence[Item]) -> Done:
        """Decides about each copy and carries the decision out. The caller acknowledges the copies that are done.

        Raises:
            Unavailable: some copies may be handled. Redis answers the same when it is asked again.
        """
        ghosts = await self._ghosts(items)
        rest = await self._decide([item for at, item in enumerate(items) if at not in ghosts])
        for at in ghosts:
            GHOSTS.add(items[at].copy.topic)
        return replace(rest, done=[*rest.done, *(items[at].tag for at in ghosts)]) if ghosts else rest

    async def _ghosts(self, items: Sequence[Item]) -> set[int]:
        """Returns the indexes of lease copies that are ghosts by their epoch. Most leased messages were acked long ago.
        So one cheap call for several records of one home saves a full call for each copy."""
        leases = {
            at: item.copy
            for at, item in enumerate(items)
            if isinstance(item, Due) and item.kind is CopyKind.LEASE and item.copy.epoch
        }
        return await superseded(self._store, self._records, leases, least=2)

    async def _decide(self, items: Sequence[Item]) -> Done:
        policies = {topic: await self._topics.policy(topic) for topic in {item.copy.topic for item in items}}
        items = [self._completed(item, policies[item.copy.topic]) for item in items]
        for left_ms in {item.stranded_ms for item in items if isinstance(item, Due)} - {0}:
            await self._declared.wheel.renew_slots(self._lane, left_ms)
        answers = await self._store.run_each([self._question(item, policies[item.copy.topic]) for item in items])
        outcomes = [answer for answer in answers if not isinstance(answer, UnnamedVerdict)]
        unnamed: list[Item] = []
        if len(outcomes) < len(items):
            known = [not isinstance(answer, UnnamedVerdict) for answer in answers]
            unnamed = [item for item, is_known in zip(items, known, strict=True) if not is_known]
            items = [*compress(items, known)]
        # Bodies are kept before the release, so that a consumer of the message can nack it.
        await self._keep_bodies(items, outcomes, policies)
        arrived_ms: dict[int, float] = {}
        decisions = [
            self._noting(
                item, self._decision(item, outcome, policies[item.copy.topic]), partial(arrived_ms.__setitem__, at)
            )
            for at, (item, outcome) in enumerate(zip(items, outcomes, strict=True))
        ]
        # Only for copies that are published: a ghost of a removed topic would bring the topic back, with its queues.
        published = {step.publication.copy.topic for one in decisions if (step := one.step).publication is not None}
        refusals = dict(zip(published, await asyncio.gather(*map(self._use, published)), strict=True))
        decisions = await self._buried_later(decisions)
        results = await self._perform(decisions, outcomes)
        decisions, results = await self._undelivered(items, outcomes, decisions, results)
        for at, (item, result) in enumerate(zip(items, results, strict=True)):
            if isinstance(result, NotPublished) and (refusal := refusals.get(item.copy.topic)) is not None:
                results[at] = refusal
        decisions, results = await self._parked(items, decisions, results)
        done: list[int] = []
        held: list[tuple[Item, float]] = [(item, self._store.clock.now_ms() + _UNNAMED_MS) for item in unnamed]
        refused: list[tuple[Item, str]] = []
        for at, (item, outcome, decision, result) in enumerate(zip(items, outcomes, decisions, results, strict=True)):
            if isinstance(result, StoreUnavailable):
                raise result
            if isinstance(result, Unpublishable):
                refused.append((item, str(result)))
            elif isinstance(result, Unavailable):
                held.append((item, outcome.now_ms + RETRY_MS))
            elif decision.hold_ms is not None:
                held.append((item, outcome.now_ms + decision.hold_ms))
            else:
                done.append(item.tag)
                verdict = None if result is None else result.verdict
                self._count(item, count_of(decision, verdict), outcome, arrived_ms.get(at))
        return Done(done, held, refused)

    async def _use(self, topic: str) -> Undeclarable | None:
        """Puts the topic on the list of topics and declares its queue. Returns why RabbitMQ refuses the queue, or None.
        If it refuses, the topic is not listed, and its copies are not published."""
        try:
            await self._topics.used(topic)
        except Undeclarable as error:
            return error
        except BrokerUnavailable:
            return None  # the publish fails with the same error
        return None

    async def _perform(self, decisions: Sequence[Decision], outcomes: Sequence[Asked]) -> list[Result[Named]]:
        """Carries out the steps and returns their results. Waits with each release until the message's due moment."""
        now_ms, now_s = self._store.clock.now_ms(), monotonic()
        by_wait: dict[float, list[int]] = {}
        for at, (decision, outcome) in enumerate(zip(decisions, outcomes, strict=True)):
            early_ms = outcome.found.due_ms - now_ms if decision.counts == "released" else 0
            # The clock of Redis may have been set back since its answer.
            by_wait.setdefault(min(max(0, early_ms), AHEAD_MS), []).append(at)
        results: list[Result[Named]] = [None] * len(decisions)

        async def perform(wait_ms: float, indexes: list[int]) -> None:
            await _reached(now_s + wait_ms / 1_000)
            performed = await self._succession.perform([decisions[at].step for at in indexes])
            for at, result in zip(indexes, performed, strict=True):
                results[at] = result

        if by_wait.keys() == {0}:
            return await self._succession.perform([decision.step for decision in decisions])
        await asyncio.gather(*(perform(wait_ms, indexes) for wait_ms, indexes in by_wait.items()))
        return results

    async def _undelivered(
        self, items: Sequence[Item], outcomes: Sequence[Asked], decisions: list[Decision], results: list[Result[Named]]
    ) -> tuple[list[Decision], list[Result[Named]]]:
        """Makes dead letters of copies that their targets did not take. Returns all decisions and results, with the new
        ones in their places.

        A copy that its target has taken is done even if Redis did not answer. Otherwise the target would get it twice.
        """
        decisions, results, dying = [*decisions], [*results], []
        for at, (item, decision) in enumerate(zip(items, decisions, strict=True)):
            if not _is_for_target(decision):
                continue
            result = results[at]
            if isinstance(result, StoreUnavailable):
                results[at] = None
            elif isinstance(result, Unroutable):
                decisions[at] = undelivered(self._records, item.copy, outcomes[at], str(result))
                dying.append(at)
        if dying:
            performed = await self._succession.perform([decisions[at].step for at in dying])
            for at, result in zip(dying, performed, strict=True):
                results[at] = result
        return decisions, results

    async def _parked(
        self, items: Sequence[Item], decisions: list[Decision], results: list[Result[Named]]
    ) -> tuple[list[Decision], list[Result[Named]]]:
        """Puts copies back into the wheel if RabbitMQ refuses to declare the queue of their topic. Held in memory, they
        would use up the prefetch. Returns all decisions and results, with the new ones in their places."""
        at_of: dict[int, Publication] = {}
        for at, (item, decision, result) in enumerate(zip(items, decisions, results, strict=True)):
            publication = decision.step.publication
            if not isinstance(result, Undeclarable) or isinstance(item, Returned) or publication is None:
                continue
            copy = item.copy if publication.route is Route.DEAD else publication.copy
            at_of[at] = Publication(
                copy=copy, route=Route.WHEEL, left_ms=_UNDECLARABLE_MS, exact=False, kind=CopyKind.HOLD
            )
        if not at_of:
            return decisions, results
        decisions, results = [*decisions], [*results]
        reasons = {items[at].copy.topic: str(results[at]) for at in at_of}
        for at, error in zip(at_of, await self._copy_publisher.park([*at_of.values()]), strict=True):
            decisions[at], results[at] = Decision(), error
        for topic, reason in reasons.items():
            log.warning("checkpoint.undeclarable", topic=topic, reason=reason)
        return decisions, results

    def _completed(self, item: Item, policy: Effective) -> Item:
        copy = completed(item.copy, policy)
        return item if copy is item.copy else replace(item, copy=copy)

    def _question(self, item: Item, policy: Effective) -> Call[Asked]:
        if isinstance(item, Returned):
            return self._records.returned(item.copy, by_ttl=item.by_ttl)
        paused_ms = _PAUSED_MS if policy.paused else 0
        adopt, named = item.copy.asked >= ADOPT_AFTER_ASKED, item.kind in NAMED_KINDS
        return self._records.fire(
            item.copy, paused_ms=paused_ms, adopt=adopt, named=named, waited_ms=item.waited_ms, short_ms=short_ms()
        )

    def _decision(self, item: Item, outcome: Asked, policy: Effective) -> Decision:
        # `_question` has asked `returned` about a returned copy, and `fire` about any other.
        if isinstance(item, Returned):
            returned = cast("Outcome[ReturnedVerdict]", outcome)
            return after_return(self._records, item.copy, returned, item.reason, policy)
        return after_fire(self._records, item.copy, cast("Outcome[FireVerdict]", outcome), item.stranded_ms)

    def _noting(self, item: Item, decision: Decision, note_ms: Callable[[float], None]) -> Decision:
        """Returns the decision. If it is a release, its confirm calls `note_ms` with the moment in Unix ms. If a caller
        may wait for the copy's arrival, the confirm also notes the arrival."""
        publication = decision.step.publication
        if publication is None or publication.route not in _RELEASES:
            return decision
        awaited = publication.route is Route.READY and isinstance(item, Due) and is_awaited(publication.copy, item.kind)
        arrived = partial(self._arrived, note_ms, publication.copy if awaited else None)
        return replace(decision, step=replace(decision.step, publication=replace(publication, arrived=arrived)))

    def _arrived(self, note_ms: Callable[[float], None], awaited: Copy | None) -> None:
        note_ms(self._store.clock.now_ms())
        if awaited is not None:
            self._arrivals.note(awaited)

    async def _buried_later(self, decisions: list[Decision]) -> list[Decision]:
        """Returns the decisions, but holds each dead letter whose queue is missing or new until a confirm of the queue
        counts. Redis gives the same answer about the dead letter then. Meanwhile no other copy waits."""
        dying = {topic for decision in decisions if (topic := _dying(decision)) is not None}
        if not dying:
            return decisions
        settle_ms = zip(dying, await asyncio.gather(*map(self._dead_settles_in_ms, dying)), strict=True)
        hold_ms = {topic: left_ms for topic, left_ms in settle_ms if left_ms}
        return [
            Decision(hold_ms=hold_ms[topic]) if (topic := _dying(decision) or "") in hold_ms else decision
            for decision in decisions
        ]

    async def _dead_settles_in_ms(self, topic: str) -> int:
        """Declares the topic's dead queue, if needed. Returns in how many ms a confirm of the queue counts; 0: at
        once."""
        if not self._declared.has_dead(topic):
            try:
                await self._declared.ensure_dead(topic)
            except BrokerUnavailable:
                return RETRY_MS  # perhaps only this topic's queue can't be declared
        return ceil(self._declared.dead_settles_in_s(topic) * 1_000)

    async def _keep_bodies(
        self, items: Sequence[Item], outcomes: Sequence[Asked], policies: Mapping[str, Effective]
    ) -> None:
        """Keeps bodies in Redis for the records that this batch made. These are of messages that AMQP clients
        published, or of any message after Redis has lost its records."""
        calls: list[Call[Outcome[KeepVerdict]]] = []
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.verdict is FireVerdict.MADE or (outcome.verdict is FireVerdict.HOLD and item.copy.epoch == 0):
                most = keep_body_max(self._settings, policies[item.copy.topic])
                packed = envelopes.pack(item.copy.envelope, most)
                if packed:
                    calls.append(self._records.keep(outcome.found, packed))
        if calls:
            await self._store.run(calls)

    def _count(self, item: Item, counts: str | None, outcome: Asked, arrived_ms: float | None) -> None:
        """Counts a step in the metrics. `counts`: the metric. `arrived_ms`: when RabbitMQ confirmed a release, in Unix
        ms; None: unknown. The batch may end later: a new queue's confirm counts after 1.5 s, but its consumers have the
        message before."""
        topic = item.copy.topic
        if counts in {"released", "dead"} and _lease_ended(item, outcome):
            LEASES_EXPIRED.add(topic)
        match counts:
            case "released":
                self._store.clock.overruled += item.copy.due_ms - outcome.now_ms > _STEP_MS
                now_ms = self._store.clock.now_ms() if arrived_ms is None else arrived_ms
                released(topic, now_ms - max(item.copy.due_ms, outcome.found.due_ms))
            case "ghost":
                GHOSTS.add(topic)
            case "expired":
                EXPIRED.add(topic)
            case "dead":
                DEAD.add(topic, _cause(item))
            case "retried":
                RETRIED.add(topic)


def _lease_ended(item: Item, outcome: Asked) -> bool:
    """Whether the copy comes because no consumer has settled its lease.

    After an extension, the lease copy goes into the wheel again as a `HOLD` copy, due when the lease ends. Any other
    `HOLD` copy is due when its message is due.
    """
    kind = item.kind if isinstance(item, Due) else None
    if kind is CopyKind.HOLD:
        return outcome.found.attempts > 0 and item.copy.due_ms > outcome.found.due_ms
    return kind is CopyKind.LEASE


def _cause(item: Item) -> str:
    if isinstance(item, Returned):
        return item.reason
    return "lease_ended" if item.copy.envelope.target is None else "unroutable"


def _is_for_target(decision: Decision) -> bool:
    publication = decision.step.publication
    return publication is not None and publication.route is Route.TARGET


async def _reached(moment_s: float) -> None:
    """Returns at a moment of `monotonic()`, and never before it."""
    if (left_s := moment_s - monotonic()) > 0:
        await asyncio.sleep(left_s)
        await _reached(moment_s)  # a timer may end a little early


def _dying(decision: Decision) -> str | None:
    """Returns the topic if the decision publishes a dead letter to its topic's dead queue; else None."""
    publication = decision.step.publication
    if publication is None or publication.route is not Route.DEAD or publication.copy.envelope.target is not None:
        return None
    return publication.copy.topic
