"""Carries out the protocol's central rule: publish the successor, name it in the record, acknowledge the old copy.

A message is one record in Redis and one live copy in RabbitMQ. The record names the live copy by epoch and nonce. Every
change of a message that needs a new copy is one step (`steps.py`), and `Succession.perform` is the only code that
carries steps out. It carries out sends, leases, nacks, moves, replacements, dead letters, replays and the audit's
repairs. It also carries out the checkpoint's releases, retries and returns into the wheel.

    decide (pure)             perform (this module)                    settle (`deliveries.py`)
    ┌──────┐     1 publish          2 name               3 acknowledge
    │ Step │ ──> RabbitMQ: all  ──> Redis: only the  ──> RabbitMQ: the deliveries
    └──────┘     in one burst,      confirmed ones,      that the steps began with
                 confirmed          in one pipeline

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
  checkpoint asks Redis about the new copy every second for a minute. Then it takes the new copy as the live copy, if
  the message is due. By then the record most often names another copy after the old one, and the new copy is a ghost.
  If the new copy was to replace the message, it then gets a new id. A send has no old copy. Its record stays
  unconfirmed, and answers no other send of the id. Without a claim there is no record until a script creates it from
  the copy.
* A crash between 2 and 3: the record names the new copy. RabbitMQ redelivers the old one, which is a ghost.
* Redis does not answer an announcement: the copy of that step is not published. The rest is as after a failed publish.
* A publish fails: no record names the copy of that step. The other steps of the batch go on. The delivery of that step
  is put back into its queue. A send that has claimed its id gives the claim up.
* Redis does not answer: some records may name their new copies, and others not. Deliveries are put back. If the record
  names the new copy after all, the copy that was put back is a ghost.
* A script refuses to name a new copy that may be ahead of its record: it notes the copy in the record, as a ghost.
* A script gives an answer that this version has no rule for: that step alone ends as if Redis had not answered.

So a message may be delivered twice and is never lost: as long as nobody deletes or purges queues, RabbitMQ has the copy
that the record names, or the delivery in its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from bridge.broker.copy_publisher import CopyPublisher
from bridge.model.errors import StoreUnavailable, UnnamedVerdict
from bridge.service.context import Context
from bridge.service.protocol.steps import Publish, Result, Step, Succeed, Update, V, named
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.verdicts import LeaseVerdict

_AHEAD_TRIES: Final = 5
_AHEAD_PAUSE_S: Final = 0.01


class Succession:
    """Carries out steps in batches."""

    def __init__(self, store: Store, copy_publisher: CopyPublisher) -> None:
        self._store = store
        self._copy_publisher = copy_publisher

    @classmethod
    def of_calls(cls, context: Context) -> Succession:
        """Returns the object that carries out the steps of clients' calls. A client's call puts its topic on the list
        of topics. So these steps declare the topic's missing queues."""
        return cls(context.store, context.broker.copy_publisher)

    @classmethod
    def of_copies(cls, context: Context) -> Succession:
        """Returns the object that carries out the steps of existing copies. A topic may be removed while it still has
        copies. These steps do not declare the missing queues of a removed topic."""
        return cls(context.store, context.broker.releases)

    async def perform(self, steps: Sequence[Step[V]]) -> list[Result[V]]:
        """Carries out a batch of steps, and returns one result for each, in order. A result that is an error concerns
        its step alone; the module's docstring says what such a failure leaves behind."""
        results: list[Result[V]] = [None] * len(steps)
        await self._announce(steps, results)
        await self._publish(steps, results)
        await self._name(steps, results)
        return results

    async def perform_one(self, step: Step[V]) -> Outcome[V]:
        """Carries out one step that has a `name`, and returns the outcome.

        Raises:
            Unavailable: the copy was not published, or Redis did not answer.
        """
        (result,) = await self.perform([step])
        return named(result)

    async def _announce(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        calls = {
            at: step.announce
            for at, step in enumerate(steps)
            if isinstance(step, Succeed) and step.announce is not None
        }
        if not calls:
            return
        try:
            await self._store.run([*calls.values()])
        except StoreUnavailable as error:
            for at in calls:
                results[at] = error

    async def _publish(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        publications = {
            at: step.publication
            for at, step in enumerate(steps)
            if isinstance(step, (Publish, Succeed)) and results[at] is None
        }
        if publications:
            errors = await self._copy_publisher.publish([*publications.values()])
            for at, error in zip(publications, errors, strict=True):
                results[at] = error

    async def _name(self, steps: Sequence[Step[V]], results: list[Result[V]]) -> None:
        calls = {
            at: step.name
            for at, step in enumerate(steps)
            if isinstance(step, (Update, Succeed)) and results[at] is None
        }
        if not calls:
            return
        try:
            for at, outcome in zip(calls, await self._outcomes([*calls.values()]), strict=True):
                results[at] = outcome
        except StoreUnavailable as error:
            for at in calls:
                results[at] = error

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
