"""Handles a batch of copies at the checkpoint: asks Redis, keeps bodies, publishes and names."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil
from time import monotonic

from bridge.broker.copies.classify import Due, Returned
from bridge.broker.publications import Route
from bridge.loops.checkpoint.verdicts import ADOPT_AFTER_ASKED, Decision, after_fire, after_return, undelivered
from bridge.metrics.messages import DEAD, EXPIRED, GHOSTS, LEASES_EXPIRED, RETRIED, released
from bridge.model.errors import BrokerUnavailable, StoreUnavailable, Unavailable, Unpublishable, Unroutable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import CopyKind
from bridge.model.values import Policy
from bridge.service.context import Context
from bridge.service.kept_bodies import keep_body_max
from bridge.service.succession import Result, Succession
from bridge.service.successors import completed
from bridge.service.superseded import superseded
from bridge.store import envelopes
from bridge.store.calls import Call
from bridge.store.outcomes import Outcome, read
from bridge.store.records import AHEAD_MS
from bridge.store.verdicts import Verdict

RETRY_MS = 500  # before a copy that could not be published is tried again
_PAUSED_MS = 5_000  # before Redis is asked again about a due copy of a paused topic


Item = Due | Returned
"""A copy at the checkpoint, with the tag that acknowledges it."""


@fast_dataclass(frozen=True, slots=True)
class Done:
    """The result of a batch. `done`: tags to acknowledge. `held`: copies to ask Redis about again, with the moment in
    Unix ms. `refused`: copies that can't be published, and why."""

    done: list[int]
    held: list[tuple[Item, float]]
    refused: list[tuple[Item, str]]


class Batches:
    def __init__(self, context: Context, lane: int) -> None:
        self._lane = lane
        self._store = context.store
        self._records = context.records
        self._succession = Succession(context.store, context.broker.releases)
        self._declared = context.broker.declared
        self._topics = context.topics
        self._max_retry = context.settings.max_retry
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
        """Returns the indexes of lease copies that are ghosts by their epoch. Most leases were acked long ago, so one
        call for several records of one home is cheaper than asking about each."""
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
        answers = await self._store.run([self._question(item, policies[item.copy.topic]) for item in items])
        outcomes = [read(item.copy.topic, item.copy.id, answer) for item, answer in zip(items, answers, strict=True)]
        # Bodies are kept before the release, so that a consumer of the message can nack it.
        await self._keep_bodies(items, outcomes, policies)
        decisions = [
            self._decision(item, outcome, policies[item.copy.topic])
            for item, outcome in zip(items, outcomes, strict=True)
        ]
        # Only for these: a ghost of a removed topic would bring the topic back, with its queues.
        published = {step.publication.copy.topic for one in decisions if (step := one.step).publication is not None}
        if len(published) > 1:
            await asyncio.gather(*map(self._topics.used, published))
        else:
            for topic in published:
                await self._topics.used(topic)
        decisions = await self._buried_later(decisions)
        results = await self._perform(decisions, outcomes)
        decisions, results = await self._undelivered(items, outcomes, decisions, results)
        done: list[int] = []
        held: list[tuple[Item, float]] = []
        refused: list[tuple[Item, str]] = []
        for item, outcome, decision, result in zip(items, outcomes, decisions, results, strict=True):
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
                self._count(item, decision.counts, outcome)
        return Done(done, held, refused)

    async def _perform(self, decisions: Sequence[Decision], outcomes: Sequence[Outcome]) -> list[Result]:
        """Carries out the steps, each release at the due moment of its message."""
        now_ms, now_s = self._store.clock.now_ms(), monotonic()
        by_wait: dict[float, list[int]] = {}
        for at, (decision, outcome) in enumerate(zip(decisions, outcomes, strict=True)):
            early_ms = outcome.found.due_ms - now_ms if decision.counts == "released" else 0
            # The clock of Redis may have been set back since its answer.
            by_wait.setdefault(min(max(0, early_ms), AHEAD_MS), []).append(at)
        results: list[Result] = [None] * len(decisions)

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
        self, items: Sequence[Item], outcomes: Sequence[Outcome], decisions: list[Decision], results: list[Result]
    ) -> tuple[list[Decision], list[Result]]:
        """Makes dead letters of the copies that their targets did not take. Returns what was decided and done instead.

        A copy that its target has taken is done, also if Redis did not hear of it: otherwise it would go there twice.
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

    def _completed(self, item: Item, policy: Policy) -> Item:
        copy = completed(item.copy, policy, self._max_retry)
        return item if copy is item.copy else replace(item, copy=copy)

    def _question(self, item: Item, policy: Policy) -> Call:
        if isinstance(item, Returned):
            return self._records.returned(item.copy, by_ttl=item.by_ttl)
        paused_ms = _PAUSED_MS if policy.paused else 0
        return self._records.fire(item.copy, paused_ms=paused_ms, adopt=item.copy.asked >= ADOPT_AFTER_ASKED)

    def _decision(self, item: Item, outcome: Outcome, policy: Policy) -> Decision:
        if isinstance(item, Returned):
            return after_return(self._records, item.copy, outcome, item.reason, policy)
        return after_fire(self._records, item.copy, outcome, item.stranded_ms)

    async def _buried_later(self, decisions: list[Decision]) -> list[Decision]:
        """Holds dead letters whose queue is missing or new, until its confirm counts. Redis answers the same about them
        then, and no other copy waits."""
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
        """Declares the topic's dead queue, if needed. Returns how many ms later its confirm counts, 0: at once."""
        if not self._declared.has_dead(topic):
            try:
                await self._declared.ensure_dead(topic)
            except BrokerUnavailable:
                return RETRY_MS  # it may be this topic's fault alone
        return ceil(self._declared.dead_settles_in_s(topic) * 1_000)

    async def _keep_bodies(
        self, items: Sequence[Item], outcomes: Sequence[Outcome], policies: Mapping[str, Policy]
    ) -> None:
        """Keeps the bodies of messages whose records this batch made: messages of AMQP clients, or any message after
        Redis has lost its records."""
        calls: list[Call] = []
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.verdict is Verdict.MADE or (outcome.verdict is Verdict.HOLD and item.copy.epoch == 0):
                most = keep_body_max(self._settings, policies[item.copy.topic])
                packed = envelopes.pack(item.copy.envelope, most)
                if packed:
                    calls.append(self._records.keep(outcome.found, packed))
        if calls:
            await self._store.run(calls)

    def _count(self, item: Item, counts: str | None, outcome: Outcome) -> None:
        topic = item.copy.topic
        if counts in {"released", "dead"} and _lease_ended(item, outcome):
            LEASES_EXPIRED.add(topic)
        match counts:
            case "released":
                released(topic, self._store.clock.now_ms() - max(item.copy.due_ms, outcome.found.due_ms))
            case "ghost":
                GHOSTS.add(topic)
            case "expired":
                EXPIRED.add(topic)
            case "dead":
                DEAD.add(topic, _cause(item))
            case "retried":
                RETRIED.add(topic)


def _lease_ended(item: Item, outcome: Outcome) -> bool:
    """Whether the copy comes because nobody has settled its lease. After an extension it waited once more, and is due
    when the lease ends; any other copy is due when its message is."""
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
    """Returns the topic of the dead letter that is to be published, if it has a queue of its own."""
    publication = decision.step.publication
    if publication is None or publication.route is not Route.DEAD or publication.copy.envelope.target is not None:
        return None
    return publication.copy.topic
