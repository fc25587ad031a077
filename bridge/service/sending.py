"""Send: claim the id in Redis, publish into the wheel and wait for the confirm, confirm the record, answer.

A crash in between leaves an unconfirmed record, which answers nobody, and at most a copy that is delivered: an answer
never stands for a message that is nowhere. Sends that arrive together share a burst, and those whose records have one
home the calls of the scripts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TypeVar

from bridge import metrics
from bridge.broker.publications import Publication, Route
from bridge.model.errors import BridgeError, InvalidRequest, SendUnderWay, StoreUnavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Copy, Envelope, Message, Record, new_nonce
from bridge.model.ulids import new_ulid
from bridge.model.values import MAX_DELAY_MS, Draft, Policy, Release, Sent
from bridge.service.context import Context
from bridge.service.group_commit import GroupCommit
from bridge.store import envelopes
from bridge.store.calls import Call
from bridge.store.records import Claim, Confirmation, Outcome, read, read_envelope

_GROUP = 256
_GROUPS_AT_ONCE = 3
_BUSY_PAUSE_S = 0.05
_BUSY_TRIES = 36  # a new topic's first send takes over a second


@fast_dataclass(frozen=True, slots=True)
class _Prepared:
    draft: Draft
    policy: Policy
    claim: Claim
    home: str


Asked = TypeVar("Asked", Claim, Confirmation)


class Sending:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._copy_publisher = context.broker.copy_publisher
        self._declared = context.broker.declared
        self._topics = context.topics
        self._keep_body_max = context.settings.keep_body_max
        self._max_retry = context.settings.max_retry
        self._answer_within_s = context.settings.answer_within_s
        self._groups = GroupCommit(self._commit, most=_GROUP, at_once=_GROUPS_AT_ONCE)

    async def send(self, draft: Draft) -> Sent:
        """Sends one message. The answer stands for a message that RabbitMQ has confirmed and Redis has recorded.

        Raises:
            InvalidRequest: it would be due beyond the longest delay.
            Unavailable: unknown; nothing was promised. Send again, with the same id.
        """
        try:
            async with asyncio.timeout(self._answer_within_s) as limit:
                prepared = self._prepared(draft, await self._topics.used(draft.topic))
                if self._declared.unsettled(draft.topic):
                    # Its confirm takes a moment more, which others are not made to wait for.
                    limit.reschedule(None)
                    (result,) = await self._commit([prepared])
                else:
                    result = await self._groups.submit(prepared)
        except TimeoutError:
            raise StoreUnavailable("Redis or RabbitMQ did not answer in time") from None
        if isinstance(result, SendUnderWay):
            (result,) = await self._insist([prepared])
        if isinstance(result, BridgeError):
            raise result
        return result

    async def send_many(self, drafts: Sequence[Draft]) -> list[Sent | BridgeError]:
        """Sends each apart from the others: its result, or why it was not sent, in order."""
        results: list[Sent | BridgeError] = []
        for start in range(0, len(drafts), _GROUP):
            group = drafts[start : start + _GROUP]
            try:
                policies = {topic: await self._topics.used(topic) for topic in {draft.topic for draft in group}}
            except BridgeError as error:
                results += [error] * len(group)
                continue
            prepared = [self._prepared(draft, policies[draft.topic]) for draft in group]
            found = await self._commit(prepared)
            busy = [at for at, result in enumerate(found) if isinstance(result, SendUnderWay)]
            if busy:
                for at, result in zip(busy, await self._insist([prepared[at] for at in busy]), strict=True):
                    found[at] = result
            results += found
        return results

    async def finish(self) -> None:
        """Waits for the sends under way."""
        await self._groups.finish()

    def _prepared(self, draft: Draft, policy: Policy) -> _Prepared:
        ttl_ms = draft.ttl_ms if draft.ttl_ms is not None else policy.ttl_ms
        max_retry = draft.max_retry if draft.max_retry is not None else policy.max_retry
        absolute = draft.deliver_at_ms is not None
        claim = Claim(
            id=draft.id or new_ulid(),
            mode="at" if absolute else "in",
            when_ms=(draft.deliver_at_ms if absolute else draft.delay_ms) or 0,
            ttl_ms=-1 if ttl_ms is None else ttl_ms,
            max_retry=self._max_retry if max_retry is None else max_retry,
            nonce=new_nonce(),
            max_delay_ms=MAX_DELAY_MS,
            fresh=int(not draft.id),
        )
        return _Prepared(draft, policy, claim, self._records.keys.home(draft.topic, claim.id))

    async def _insist(self, prepared: list[_Prepared]) -> list[Sent | BridgeError]:
        """Waits a little for other sends of the same ids to end, which then answer for these."""
        results: list[Sent | BridgeError] = []
        for one in prepared:
            result: Sent | BridgeError = SendUnderWay(f"another send of {one.claim.id!r} is under way")
            for _ in range(_BUSY_TRIES):
                (result,) = await self._commit([one])
                if not isinstance(result, SendUnderWay):
                    break
                await asyncio.sleep(_BUSY_PAUSE_S)
            results.append(result)
        return results

    async def _commit(self, prepared: list[_Prepared]) -> list[Sent | BridgeError]:
        parts = self._store.apart([one.home for one in prepared])
        if len(parts) == 1:
            return await self._commit_together(prepared)
        ended = await asyncio.gather(*(self._commit_together([prepared[at] for at in places]) for places in parts))
        results = dict(zip(chain.from_iterable(parts), chain.from_iterable(ended), strict=True))
        return [results[at] for at in range(len(prepared))]

    async def _commit_together(self, prepared: list[_Prepared]) -> list[Sent | BridgeError]:
        """Those whose records are on one server."""
        try:
            claims = await self._ask(self._records.schedule, prepared, [one.claim for one in prepared])
        except StoreUnavailable as error:
            return [error] * len(prepared)
        results: list[Sent | BridgeError] = [_refusal(one, claim) for one, claim in zip(prepared, claims, strict=True)]
        existing = [at for at, claim in enumerate(claims) if claim.verdict == "exists"]
        created = [at for at, claim in enumerate(claims) if claim.verdict == "created"]
        if existing:
            for at, found in zip(existing, await self._existing([claims[at] for at in existing]), strict=True):
                results[at] = found
        if created:
            sent = await self._publish([prepared[at] for at in created], [claims[at].found for at in created])
            for at, outcome in zip(created, sent, strict=True):
                results[at] = outcome
        return results

    async def _existing(self, claims: list[Outcome]) -> list[Sent | BridgeError]:
        records = [claim.found for claim in claims]
        try:
            answers = await self._store.run([self._records.look(record.topic, record.id) for record in records])
        except StoreUnavailable as error:
            return [error] * len(claims)
        looks = [read(record.topic, record.id, answer) for record, answer in zip(records, answers, strict=True)]
        return [
            Sent(message=Message(record=record, envelope=read_envelope(look)), replayed=True)
            for record, look in zip(records, looks, strict=True)
        ]

    async def _publish(self, prepared: list[_Prepared], records: list[Record]) -> list[Sent | BridgeError]:
        now_ms = self._store.clock.now_ms()
        publications = [
            _publication(one.draft.envelope, record, one.policy, record.due_ms - now_ms)
            for one, record in zip(prepared, records, strict=True)
        ]
        errors = await self._copy_publisher.publish(publications)
        failed = [record for record, error in zip(records, errors, strict=True) if error is not None]
        confirmed = [at for at, error in enumerate(errors) if error is None]
        confirmations = [self._confirmation(prepared[at], records[at], publications[at]) for at in confirmed]
        try:
            await self._store.run([self._records.abandon(record) for record in failed])
            outcomes = await self._ask(self._records.confirm, [prepared[at] for at in confirmed], confirmations)
        except StoreUnavailable as error:
            return [failure or error for failure in errors]
        for outcome in outcomes:
            if outcome.verdict == "confirmed":
                metrics.ACCEPTED.add(outcome.found.topic)
        outcome_of = dict(zip(confirmed, outcomes, strict=True))
        return [error or _result(prepared[at], outcome_of[at]) for at, error in enumerate(errors)]

    async def _ask(
        self, build: Callable[[str, Asked], Call], prepared: Sequence[_Prepared], asked: Sequence[Asked]
    ) -> list[Outcome]:
        """Asks in one round trip; the outcomes in order.

        Raises:
            StoreUnavailable
        """
        topics = [one.draft.topic for one in prepared]
        answers = await self._store.run(list(map(build, topics, asked)))
        return [read(topic, one.id, answer) for topic, one, answer in zip(topics, asked, answers, strict=True)]

    def _confirmation(self, one: _Prepared, record: Record, publication: Publication) -> Confirmation:
        return Confirmation(
            id=record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            created_ms=record.created_ms,
            ready=int(publication.route is Route.READY),
            direct=int(one.policy.release is Release.DIRECT),
            envelope=envelopes.pack(one.draft.envelope, self._keep_body_max),
        )


def _result(one: _Prepared, outcome: Outcome) -> Sent | BridgeError:
    """What has become of a send whose copy RabbitMQ has confirmed."""
    if outcome.verdict == "confirmed":
        return Sent(message=Message(record=outcome.found, envelope=one.draft.envelope), replayed=False)
    if outcome.verdict == "superseded":
        return SendUnderWay(f"another send took the id {one.claim.id!r} over")
    return StoreUnavailable("the record was lost before it could be confirmed")


def _refusal(one: _Prepared, claim: Outcome) -> BridgeError:
    """Why a claim that is neither new nor an existing message is none."""
    if claim.verdict == "too_far":
        field, value = (
            ("deliver_at", one.draft.deliver_at_ms)
            if one.draft.deliver_at_ms is not None
            else ("delay", one.draft.delay_ms)
        )
        return InvalidRequest.of(
            field, value, MAX_DELAY_MS, f"is {claim.extra} ms beyond the longest delay of 999 days"
        )
    return SendUnderWay(f"another send of the id {one.claim.id!r} is under way")


def _publication(envelope: Envelope, record: Record, policy: Policy, left_ms: float) -> Publication:
    copy = first_copy(record, envelope)
    if record.due_ms <= record.created_ms and not policy.paused:
        live_for_ms = record.expires_ms - record.created_ms if record.expires_ms else 0
        return Publication(copy=copy, route=Route.READY, live_for_ms=live_for_ms)
    checked = policy.release is Release.CHECKED
    return Publication(copy=copy, route=Route.WHEEL, left_ms=max(0.0, left_ms), exact=checked, shares=checked)


def first_copy(record: Record, envelope: Envelope) -> Copy:
    return Copy(
        topic=record.topic,
        id=record.id,
        epoch=record.epoch,
        nonce=record.nonce,
        attempt=1,
        max_retry=record.max_retry,
        due_ms=record.due_ms,
        expires_ms=record.expires_ms,
        created_ms=record.created_ms,
        envelope=envelope,
    )
