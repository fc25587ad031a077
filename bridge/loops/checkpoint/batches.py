"""What is done with a batch of due copies: ask Redis, publish, name, keep bodies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bridge import metrics
from bridge.broker.copies.classify import Due, Returned
from bridge.loops.checkpoint.verdicts import ADOPT_AFTER_ASKED, Step, after_fire, after_return
from bridge.model.errors import BrokerUnavailable, Unpublishable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import CopyKind
from bridge.model.values import Policy
from bridge.service.context import Context
from bridge.store import envelopes
from bridge.store.calls import Call
from bridge.store.records import Outcome, read

RETRY_MS = 500  # after a store or broker that was away
_PAUSED_MS = 5_000  # what is due in a paused topic is asked about again after so long


Item = Due | Returned
"""A copy at the checkpoint, with the tag that acknowledges it."""


@fast_dataclass(frozen=True, slots=True)
class Done:
    """`done`: tags to acknowledge. `held`: copies to ask about again, with the moment in Unix ms. `refused`: copies
    that can't be published, and why."""

    done: list[int]
    held: list[tuple[Item, float]]
    refused: list[tuple[Item, str]]


class Batches:
    def __init__(self, context: Context, lane: int) -> None:
        self._lane = lane
        self._store = context.store
        self._records = context.records
        self._copy_publisher = context.broker.releases
        self._declared = context.broker.declared
        self._topics = context.topics
        self._keep_body_max = context.settings.keep_body_max

    async def process(self, items: Sequence[Item]) -> Done:
        """Decides about each and does it. What is done need only be acknowledged.

        Raises:
            Unavailable: any of it may have been done; the same is decided when it is asked again.
        """
        ghosts = await self._ghosts(items)
        left = await self._decide([item for at, item in enumerate(items) if at not in ghosts])
        for at in ghosts:
            metrics.GHOSTS.add(items[at].copy.topic)
        return replace(left, done=[*left.done, *(items[at].tag for at in ghosts)]) if ghosts else left

    async def _ghosts(self, items: Sequence[Item]) -> set[int]:
        """The places of lease copies that are superseded, where several have records side by side: most were acked
        long ago, and one look tells them."""
        leases: dict[str, list[int]] = {}
        for at, item in enumerate(items):
            if isinstance(item, Due) and item.kind is CopyKind.LEASE and item.copy.epoch:
                home = self._records.keys.home(item.copy.topic, item.copy.id)
                leases.setdefault(home, []).append(at)
        looks = [places for places in leases.values() if len(places) > 1]
        if not looks:
            return set()
        calls = [self._records.superseded([items[at].copy for at in places]) for places in looks]
        answers = await self._store.run(calls)
        return {
            at
            for places, answer in zip(looks, answers, strict=True)
            for at, ghost in zip(places, answer, strict=True)
            if ghost
        }

    async def _decide(self, items: Sequence[Item]) -> Done:
        policies = {topic: await self._topics.used(topic) for topic in {item.copy.topic for item in items}}
        for left_ms in {item.stranded_ms for item in items if isinstance(item, Due)} - {0}:
            await self._declared.renew_slots(self._lane, left_ms)
        answers = await self._store.run([self._question(item, policies[item.copy.topic]) for item in items])
        outcomes = [read(item.copy.topic, item.copy.id, answer) for item, answer in zip(items, answers, strict=True)]
        # Before the release, so that whoever is handed a message can give it back.
        await self._keep_bodies(items, outcomes)
        steps = [_step(item, outcome, policies[item.copy.topic]) for item, outcome in zip(items, outcomes, strict=True)]
        failed = await self._publish_and_name(steps)
        done: list[int] = []
        held: list[tuple[Item, float]] = []
        refused: list[tuple[Item, str]] = []
        for at, (item, outcome, step) in enumerate(zip(items, outcomes, steps, strict=True)):
            if isinstance(failed.get(at), Unpublishable):
                refused.append((item, str(failed[at])))
            elif at in failed:
                held.append((item, outcome.now_ms + RETRY_MS))
            elif step.hold_ms is not None:
                held.append((item, outcome.now_ms + step.hold_ms))
            else:
                done.append(item.tag)
                self._count(item, step, outcome)
        return Done(done, held, refused)

    def _question(self, item: Item, policy: Policy) -> Call:
        if isinstance(item, Returned):
            return self._records.returned(item.copy, by_ttl=item.by_ttl)
        paused_ms = _PAUSED_MS if policy.paused else 0
        return self._records.fire(item.copy, paused_ms=paused_ms, adopt=item.copy.asked >= ADOPT_AFTER_ASKED)

    async def _publish_and_name(self, steps: Sequence[Step]) -> dict[int, BrokerUnavailable]:
        """Publishes what the steps say, and then names what was confirmed; why not, by the places of the others."""
        publishing = [at for at, step in enumerate(steps) if step.publication is not None]
        publications = [step.publication for step in steps if step.publication is not None]
        errors = await self._copy_publisher.publish(publications) if publications else []
        failed = {at: error for at, error in zip(publishing, errors, strict=True) if error is not None}
        names = [step.name for at, step in enumerate(steps) if step.name is not None and at not in failed]
        if names:
            await self._store.run([name(self._records) for name in names])
        return failed

    async def _keep_bodies(self, items: Sequence[Item], outcomes: Sequence[Outcome]) -> None:
        """Keeps the bodies of messages whose records were made here: those of AMQP clients, or all after a loss."""
        calls: list[Call] = []
        for item, outcome in zip(items, outcomes, strict=True):
            if outcome.verdict == "made" or (outcome.verdict == "hold" and item.copy.epoch == 0):
                packed = envelopes.pack(item.copy.envelope, self._keep_body_max)
                if packed:
                    calls.append(self._records.keep(outcome.found, packed))
        if calls:
            await self._store.run(calls)

    def _count(self, item: Item, step: Step, outcome: Outcome) -> None:
        topic = item.copy.topic
        match step.counts:
            case "released":
                metrics.released(topic, self._store.clock.now_ms() - max(item.copy.due_ms, outcome.found.due_ms))
            case "ghost":
                metrics.GHOSTS.add(topic)
            case "expired":
                metrics.EXPIRED.add(topic)
            case "dead":
                metrics.DEAD.add(topic)
            case "retried":
                metrics.RETRIED.add(topic)


def _step(item: Item, outcome: Outcome, policy: Policy) -> Step:
    if isinstance(item, Returned):
        return after_return(item.copy, outcome, item.reason, policy, outcome.now_ms)
    return after_fire(item.copy, outcome, item.stranded_ms)
