"""Handles a batch of copies at the checkpoint: asks Redis, keeps bodies, publishes copies, and names successors in
their records."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import ceil
from time import monotonic
from typing import cast

import structlog

from bridge.broker.copies.classify import Due, Returned
from bridge.broker.publications import Publication, Route, short_ms
from bridge.loops.checkpoint.cases import Case, Item
from bridge.loops.checkpoint.counting import count
from bridge.loops.checkpoint.verdicts import (
    ADOPT_AFTER_ASKED,
    Asked,
    Decision,
    Hold,
    Named,
    Perform,
    after_fire,
    after_return,
    count_of,
    named,
    undelivered,
)
from bridge.metrics.messages import GHOSTS
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
from bridge.service.protocol.steps import Publish, Succeed
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import as_recorded, completed
from bridge.service.protocol.superseded import superseded
from bridge.store.calls import Call
from bridge.store.messages import envelopes
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import AHEAD_MS
from bridge.store.messages.verdicts import FireVerdict, KeepVerdict, ReturnedVerdict

log = structlog.get_logger(__name__)

RETRY_MS = 500  # the pause before a copy that could not be published is tried again
PAUSED_MS = 5_000  # the pause before Redis is asked again about a due copy of a paused topic; lua/fire.lua knows it
_UNNAMED_MS = 5_000  # the pause before Redis is asked again, if this version has no rule for its answer
_UNDECLARABLE_MS = 30_000  # the pause before RabbitMQ is asked again for a queue that it refuses

_RELEASES = frozenset((Route.READY, Route.TARGET))


@fast_dataclass(frozen=True, slots=True)
class Done:
    """The result of a batch. `done`: delivery tags to acknowledge. `held`: copies to ask Redis about again, each with
    the moment for that, in Unix ms of Redis' clock. `refused`: copies that can't be published, each with the reason."""

    done: list[int]
    held: list[tuple[Item, float]]
    refused: list[tuple[Item, str]]


class Batches:
    def __init__(self, context: Context, lane: int) -> None:
        self._lane = lane
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_copies(context)
        self._arrivals = Arrivals(context)
        self._copy_publisher = context.broker.releases
        self._declared = context.broker.declared
        self._topics = context.topics
        self._settings = context.settings

    async def process(self, items: Sequence[Item]) -> Done:
        """Decides what happens to each copy, carries the decisions out, and returns the results. The caller
        acknowledges the copies that are done.

        Raises:
            Unavailable: some copies may be handled. Redis gives the same answers when it is asked again.
        """
        ghosts = await self._ghosts(items)
        rest = await self._decide([item for at, item in enumerate(items) if at not in ghosts])
        for at in ghosts:
            GHOSTS.add(items[at].copy.topic)
        return replace(rest, done=[*rest.done, *(items[at].tag for at in ghosts)]) if ghosts else rest

    async def _ghosts(self, items: Sequence[Item]) -> set[int]:
        """Returns the indexes of lease copies whose epoch shows that they are ghosts. Most leased messages were acked
        long ago. So one cheap call about several records with the same home (`Keys.home`) saves a full call for each
        copy."""
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
        unnamed = [item for item, answer in zip(items, answers, strict=True) if isinstance(answer, UnnamedVerdict)]
        cases = [
            Case(item, answer, self._decision(item, answer, policies[item.copy.topic]))
            for item, answer in zip(items, answers, strict=True)
            if not isinstance(answer, UnnamedVerdict)
        ]
        # Bodies are kept before the release, so that a consumer of the message can nack it.
        await self._keep_bodies(cases, policies)
        for case in cases:
            self._note_arrival(case)
        # Only for copies that are published: a ghost of a removed topic would bring the topic back, with its queues.
        published = {publication.copy.topic for case in cases if (publication := case.publication) is not None}
        refusals = dict(zip(published, await asyncio.gather(*map(self._use, published)), strict=True))
        await self._bury_later(cases)
        await self._perform(cases)
        await self._bury_undelivered(cases)
        for case in cases:
            if isinstance(case.result, NotPublished) and (refusal := refusals.get(case.item.copy.topic)) is not None:
                case.result = refusal
        await self._park(cases)
        return self._done(cases, unnamed)

    def _done(self, cases: Sequence[Case], unnamed: Sequence[Item]) -> Done:
        """Counts the results in the metrics, and returns the batch's result. `unnamed`: copies about which Redis gave
        an answer that this version has no rule for.

        Raises:
            StoreUnavailable: one of the results is this error; Redis did not answer.
        """
        done = Done([], [(item, self._store.clock.now_ms() + _UNNAMED_MS) for item in unnamed], [])
        for case in cases:
            item, decision, now_ms = case.item, case.decision, case.outcome.now_ms
            if isinstance(case.result, StoreUnavailable):
                raise case.result
            if isinstance(case.result, Unpublishable):
                done.refused.append((item, str(case.result)))
            elif isinstance(case.result, Unavailable):
                done.held.append((item, now_ms + RETRY_MS))
            elif isinstance(decision, Hold):
                done.held.append((item, now_ms + decision.for_ms))
            else:
                done.done.append(item.tag)
                verdict = None if case.result is None else case.result.verdict
                count(case, count_of(decision, verdict), self._store.clock)
        return done

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

    async def _perform(self, cases: Sequence[Case]) -> None:
        """Carries out the steps. Each step begins at its `not_before_ms`, or now if that has passed."""
        now_ms, now_s = self._store.clock.now_ms(), monotonic()
        by_wait: dict[float, list[tuple[Case, Publish | Succeed[Named]]]] = {}
        for case in cases:
            if isinstance(case.decision, Perform):
                # The clock of Redis may have been set back since its answer.
                wait_ms = min(max(0, case.decision.not_before_ms - now_ms), AHEAD_MS)
                by_wait.setdefault(wait_ms, []).append((case, case.decision.step))

        async def perform(wait_ms: float, steps: Sequence[tuple[Case, Publish | Succeed[Named]]]) -> None:
            await _reached(now_s + wait_ms / 1_000)
            performed = await self._succession.perform([step for _, step in steps])
            for (case, _), result in zip(steps, performed, strict=True):
                case.result = result

        await asyncio.gather(*(perform(wait_ms, steps) for wait_ms, steps in by_wait.items()))

    async def _bury_undelivered(self, cases: Sequence[Case]) -> None:
        """Makes dead letters of copies that their targets did not take.

        A copy that its target has taken is done even if Redis did not answer. Otherwise the target would get it twice.
        """
        dying: list[Case] = []
        for case in cases:
            if (publication := case.publication) is None or publication.route is not Route.TARGET:
                continue
            if isinstance(case.result, StoreUnavailable):
                case.result = None
            elif isinstance(case.result, Unroutable):
                case.decision = undelivered(self._records, case.item.copy, case.outcome, str(case.result))
                dying.append(case)
        await self._perform(dying)

    async def _park(self, cases: Sequence[Case]) -> None:
        """Puts copies back into the wheel if RabbitMQ refuses to declare the queue of their topic. Held in memory, they
        would use up the prefetch."""
        parked: list[tuple[Case, Publish]] = []
        for case in cases:
            publication = case.publication
            if not isinstance(case.result, Undeclarable) or isinstance(case.item, Returned) or publication is None:
                continue
            copy, kind = publication.copy, publication.kind if publication.route is Route.WHEEL else CopyKind.HOLD
            if publication.route is Route.DEAD:
                copy = replace(as_recorded(case.item.copy, case.outcome.found), due_ms=case.item.copy.due_ms)
            back = Publication(copy=copy, route=Route.WHEEL, left_ms=_UNDECLARABLE_MS, exact=False, kind=kind)
            parked.append((case, Publish(back)))
        if not parked:
            return
        reasons = {case.item.copy.topic: str(case.result) for case, _ in parked}
        errors = await self._copy_publisher.park([step.publication for _, step in parked])
        for (case, step), error in zip(parked, errors, strict=True):
            case.decision, case.result = Perform(step), error
        for topic, reason in reasons.items():
            log.warning("checkpoint.undeclarable", topic=topic, reason=reason)

    def _completed(self, item: Item, policy: Effective) -> Item:
        copy = completed(item.copy, policy)
        return item if copy is item.copy else replace(item, copy=copy)

    def _question(self, item: Item, policy: Effective) -> Call[Asked]:
        if isinstance(item, Returned):
            return self._records.returned(item.copy, by_ttl=item.by_ttl)
        paused_ms = PAUSED_MS if policy.paused else 0
        return self._records.fire(
            item.copy,
            paused_ms=paused_ms,
            adopt=item.copy.asked >= ADOPT_AFTER_ASKED,
            named=named(item),
            waited_ms=item.waited_ms,
            short_ms=short_ms(),
        )

    def _decision(self, item: Item, outcome: Asked, policy: Effective) -> Decision:
        # `_question` has asked `returned` about a returned copy, and `fire` about any other.
        if isinstance(item, Returned):
            returned = cast("Outcome[ReturnedVerdict]", outcome)
            return after_return(self._records, item.copy, returned, item.reason, policy)
        return after_fire(self._records, item, cast("Outcome[FireVerdict]", outcome))

    def _note_arrival(self, case: Case) -> None:
        """Adds a callback to the publication of a release, which remembers the moment of the publisher confirm. If a
        caller may wait for the copy's arrival, the callback also stores the arrival in Redis."""
        decision, item = case.decision, case.item
        if not isinstance(decision, Perform) or decision.step.publication.route not in _RELEASES:
            return
        publication = decision.step.publication
        awaited = publication.route is Route.READY and isinstance(item, Due) and is_awaited(publication.copy, item.kind)
        arrived = partial(self._arrived, case, publication.copy if awaited else None)
        step = replace(decision.step, publication=replace(publication, arrived=arrived))
        case.decision = replace(decision, step=step)

    def _arrived(self, case: Case, awaited: Copy | None) -> None:
        case.arrived_ms = self._store.clock.now_ms()
        if awaited is not None:
            self._arrivals.note(awaited)

    async def _bury_later(self, cases: Sequence[Case]) -> None:
        """Holds each copy that becomes a dead letter, if its dead queue is missing or new, until a confirm of the queue
        counts. Then Redis is asked again, and gives the same answer. Other copies do not wait."""
        dying = {topic for case in cases if (topic := case.dies_in) is not None}
        settle_ms = zip(dying, await asyncio.gather(*map(self._dead_settles_in_ms, dying)), strict=True)
        hold_ms = {topic: left_ms for topic, left_ms in settle_ms if left_ms}
        for case in cases:
            if (topic := case.dies_in) is not None and topic in hold_ms:
                case.decision = Hold(hold_ms[topic])

    async def _dead_settles_in_ms(self, topic: str) -> int:
        """Declares the topic's dead queue, if needed. Returns in how many ms a confirm of the queue counts; 0: now. If
        the declare fails, returns the pause before the next try."""
        if not self._declared.has_dead(topic):
            try:
                await self._declared.ensure_dead(topic)
            except BrokerUnavailable:
                return RETRY_MS  # perhaps only this topic's queue can't be declared
        return ceil(self._declared.dead_settles_in_s(topic) * 1_000)

    async def _keep_bodies(self, cases: Sequence[Case], policies: Mapping[str, Effective]) -> None:
        """Stores bodies in Redis for the records that this batch created. A batch creates records for messages that
        AMQP clients published, and for any message whose record Redis has lost."""
        calls: list[Call[Outcome[KeepVerdict]]] = []
        for case in cases:
            verdict, copy = case.outcome.verdict, case.item.copy
            if verdict is FireVerdict.MADE or (verdict is FireVerdict.HOLD and copy.epoch == 0):
                packed = envelopes.pack(copy.envelope, keep_body_max(self._settings, policies[copy.topic]))
                if packed:
                    calls.append(self._records.keep(case.outcome.found, packed))
        if calls:
            await self._store.run(calls)


async def _reached(moment_s: float) -> None:
    """Waits until a moment of `monotonic()`, in seconds, and never ends before it."""
    if (left_s := moment_s - monotonic()) > 0:
        await asyncio.sleep(left_s)
        await _reached(moment_s)  # a timer may end a little early
