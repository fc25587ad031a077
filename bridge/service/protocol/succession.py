"""Carries out the protocol's central rule: publish the successor, name it in the record, acknowledge the old copy.

A message is one record in Redis and one live copy in RabbitMQ. The record names the live copy by epoch and nonce. Every
change of a message that needs a new copy is one `Step`, and `Succession.perform` is the only code that carries steps
out. It carries out sends, leases, nacks, moves, replacements, dead letters, replays and the audit's repairs. It also
carries out the checkpoint's releases, retries and returns into the wheel.

    decide (pure)             perform (this module)
    ┌──────┐     1 publish          2 name               3 acknowledge
    │ Step │ ──> RabbitMQ: all  ──> Redis: only the  ──> RabbitMQ: the deliveries
    └──────┘     in one burst,      confirmed ones,      that the steps began with
                 confirmed          in one pipeline
                   │ failed           │ no answer
                   v                  v
                 the alternative    the alternative of steps with a delivery

If the message ends now, Redis may forget its record before the new copy comes. Then the copy would be live again. So
`perform` announces such a copy before it publishes it. Redis then keeps the record until the copy has come, even if
nobody ever names the copy.

A release and a return into the wheel publish the live copy again, with its epoch and nonce. So there is nothing to
name: `fire` has changed the record before.

Most leases name their lease copy before it is published, and keep the delivery (`unacked_leases.py`). The record then
says that the delivery is the live copy.

Who is authoritative:

* RabbitMQ, for the existence of a copy. Only a publisher confirm counts: a quorum queue has the copy on a majority of
  its nodes.
* Redis, for which copy is live. A script compares epoch and nonce before it changes a record. So if two callers change
  one message at once, only the first succeeds. A script that runs twice changes the record once.
* Nobody else. A bridge process keeps no state, so any process may carry on after a crash.

What a failure leaves behind:

* A crash before 1: nothing has changed, but Redis keeps an announced record longer. RabbitMQ redelivers the old copy,
  if there was one.
* A crash between 1 and 2: the record names the old copy, which stays live. The new copy is ahead of its record. The
  checkpoint asks about it again every second for a minute, and then believes it, if the message is due. Most often the
  message has gone on from its old copy by then, and the new copy is a ghost. A send has no old copy. Its record stays
  unconfirmed, and answers no other send of the id. Without a claim there is no record, until the copy creates it.
* A crash between 2 and 3: the record names the new copy. RabbitMQ redelivers the old one, which is a ghost.
* Redis does not answer an announcement: that step is not published, and then as for a failed publish.
* A publish fails: that step is not named. Its alternative is carried out; without one its delivery is requeued. The
  other steps of the batch go on.
* Redis does not answer: some records may name their new copies, and others not. Deliveries are put back by their
  alternatives, or requeued. If the record names the new copy after all, the copy that was put back is a ghost.
* A script refuses to name a new copy that may be ahead of its record: it notes the copy in the record, as a ghost.
* A script answers what this version has no rule for: as if Redis had not answered, for that step alone.

So a message may be delivered twice and is never lost: as long as nobody deletes or purges queues, RabbitMQ has the copy
that the record names, or the delivery in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Final, Generic, TypeVar

from bridge.broker.copy_publisher import CopyPublisher
from bridge.broker.publications import Publication
from bridge.broker.ready.taken import Taken, ack_all
from bridge.model.errors import StoreUnavailable, Unavailable, UnnamedVerdict
from bridge.model.fast_dataclass import fast_dataclass
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import AnnounceVerdict, LeaseVerdict

_AHEAD_TRIES: Final = 5
_AHEAD_PAUSE_S: Final = 0.01


V = TypeVar("V", bound=StrEnum)
V_co = TypeVar("V_co", bound=StrEnum, covariant=True)


@fast_dataclass(frozen=True, slots=True)
class Step(Generic[V_co]):
    """What to do for one message. Its parts are carried out in the order of the fields. Each part may be missing.

    `announce`: the call that makes the record outlive the copy; its answer does not matter. `publication`: the copy to
    publish. `name`: the call that names this copy in the record, or changes the record alone if there is no
    publication. `delivery`: the copy that the step began with, to be acknowledged last. The checkpoint's steps have
    none: it acknowledges its deliveries by tag, a batch at a time.

    `instead`: makes the alternative step from the error. It is called if the publish failed; for a step with a
    delivery, also if Redis did not answer. The alternative takes over the delivery. `then`: called with the outcome of
    `name`, only for a step with a delivery. It returns None, or a step that comes before the acknowledgement and takes
    over the delivery. The outcome of that step's `name` becomes the result. `keep`: called with the outcome, in place
    of the acknowledgement. It returns True if it has taken over the delivery; otherwise the delivery is acknowledged.
    """

    announce: Call[Outcome[AnnounceVerdict]] | None = None
    publication: Publication | None = None
    name: Call[Outcome[V_co]] | None = None
    delivery: Taken | None = None
    instead: Callable[[Unavailable], Step[StrEnum]] | None = None
    then: Callable[[Outcome[V_co]], Step[V_co] | None] | None = None
    keep: Callable[[Outcome[V_co]], bool] | None = None


Result = Outcome[V] | Unavailable | None
"""The result of a step: the outcome of its `name`; or an error, if the copy was not published, Redis did not answer, or
this version does not know its answer; or None, if the step has no `name`."""


class Succession:
    """Carries out steps in batches."""

    def __init__(self, store: Store, copy_publisher: CopyPublisher) -> None:
        self._store = store
        self._copy_publisher = copy_publisher

    async def perform(self, steps: Sequence[Step[V]]) -> list[Result[V]]:
        """Carries out a batch and returns one result for each step, in order. A result that is an error concerns its
        step alone; the module's docstring says what such a failure leaves behind."""
        results: list[Result[V]] = [None] * len(steps)
        try:
            await self._announce(steps, results)
            await self._publish(steps, results)
            await self._name(steps, results)
        except BaseException:
            for step, result in zip(steps, results, strict=True):
                if result is None and step.delivery is not None:
                    await step.delivery.requeue()
            raise
        await self._acknowledge(steps, results)
        return results

    async def perform_one(self, step: Step[V]) -> Outcome[V]:
        """Carries out one step that has a `name`, and returns the outcome.

        Raises:
            Unavailable: the copy was not published, or Redis did not answer.
        """
        (result,) = await self.perform([step])
        return named(result)

    async def _announce(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        announcing = [at for at, step in enumerate(steps) if step.announce is not None]
        calls = [call for at in announcing if (call := steps[at].announce) is not None]
        if not calls:
            return
        try:
            await self._store.run(calls)
        except StoreUnavailable as error:
            for at in announcing:
                results[at] = error
            await self._perform_instead([(steps[at], error) for at in announcing])

    async def _publish(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        publishing = [at for at, step in enumerate(steps) if step.publication is not None and results[at] is None]
        publications = [publication for at in publishing if (publication := steps[at].publication) is not None]
        if not publications:
            return
        errors = await self._copy_publisher.publish(publications)
        for at, error in zip(publishing, errors, strict=True):
            results[at] = error
        if any(errors):
            failed = [(steps[at], error) for at, error in zip(publishing, errors, strict=True) if error is not None]
            await self._perform_instead(failed)

    async def _name(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        naming = [at for at, step in enumerate(steps) if step.name is not None and results[at] is None]
        calls = [call for at in naming if (call := steps[at].name) is not None]
        if not calls:
            return
        try:
            outcomes = await self._outcomes(calls)
        except StoreUnavailable as error:
            for at in naming:
                results[at] = error
            await self._perform_instead([(steps[at], error) for at in naming if steps[at].delivery is not None])
            return
        unknown: list[tuple[Step[V], Unavailable]] = []
        for at, outcome in zip(naming, outcomes, strict=True):
            results[at] = outcome
            if isinstance(outcome, UnnamedVerdict) and steps[at].delivery is not None:
                unknown.append((steps[at], outcome))
        if unknown:
            await self._perform_instead(unknown)

    async def _outcomes(self, calls: list[Call[Outcome[V]]]) -> list[Outcome[V] | UnnamedVerdict]:
        """Runs the calls in one round trip. If a copy is ahead of its record, another process has published the copy
        and is about to name it. So the call is repeated after a short pause."""
        outcomes = [*await self._store.run_each(calls)]
        for _ in range(_AHEAD_TRIES - 1):
            ahead = [
                at
                for at, outcome in enumerate(outcomes)
                if not isinstance(outcome, UnnamedVerdict) and outcome.verdict is LeaseVerdict.AHEAD
            ]
            if not ahead:
                break
            await asyncio.sleep(_AHEAD_PAUSE_S)
            for at, answer in zip(ahead, await self._store.run_each([calls[at] for at in ahead]), strict=True):
                outcomes[at] = answer
        return outcomes

    async def _acknowledge(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        settled: list[Taken] = []
        further: list[tuple[int, Step[V]]] = []
        for at, (step, result) in enumerate(zip(steps, results, strict=True)):
            if step.delivery is None or isinstance(result, Unavailable):
                continue
            next_step = step.then(result) if step.then is not None and result is not None else None
            if next_step is None:
                if step.keep is None or result is None or not step.keep(result):
                    settled.append(step.delivery)
            else:
                further.append((at, next_step))
        if further:
            for (at, step), result in zip(further, await self.perform([step for _, step in further]), strict=True):
                if step.name is not None:
                    results[at] = result
        if settled:
            await ack_all(settled)

    async def _perform_instead(self, failed: Sequence[tuple[Step[StrEnum], Unavailable]]) -> None:
        alternatives = [step.instead(error) for step, error in failed if step.instead is not None]
        for step, _ in failed:
            if step.instead is None and step.delivery is not None:
                await step.delivery.requeue()
        if alternatives:
            await self.perform(alternatives)


def named(result: Result[V]) -> Outcome[V]:
    """Returns the outcome of a step that has a `name`, from the step's result.

    Raises:
        Unavailable: the step was not carried out.
    """
    if isinstance(result, Unavailable):
        raise result
    if result is None:
        raise LookupError("the step named nothing, so it has no outcome")
    return result
