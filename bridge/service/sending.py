"""Sends messages: claims the id in Redis, publishes the copy, confirms the record, answers.

A crash in between leaves an unconfirmed record, which answers no other send, and at most a copy that is delivered. So
an accepted message always exists. Sends that arrive together share one burst of publishes, and those whose records are
in one cluster slot share the calls of the scripts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from math import inf
from time import monotonic

from bridge import metrics
from bridge.broker.publications import Route
from bridge.model.errors import BridgeError, NotPublished, SendUnderWay, StoreUnavailable, Unavailable
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.group_commit import GroupCommit
from bridge.model.message import CopyKind, Message, Record, new_nonce
from bridge.model.ulids import new_ulid
from bridge.model.values import Draft, Policy, Sent
from bridge.service.context import Context
from bridge.service.detours import Detours
from bridge.service.horizon import check_horizon
from bridge.service.kept_bodies import keep_body_max
from bridge.service.maker import Maker
from bridge.service.succession import Result, Step, Succession, named
from bridge.service.successors import due_at_once, first
from bridge.store import envelopes
from bridge.store.calls import Call
from bridge.store.records import Claim, Confirmation, outcome_of, read_envelope
from bridge.store.verdicts import Verdict

_GROUP = 256
_GROUPS_AT_ONCE = 3
_LATE = "Redis or RabbitMQ did not answer in time"
_BUSY_PAUSE_S = 0.05
_BUSY_TRIES = 36  # the first send to a new topic takes over a second
_ANSWER_TAKES_S = 0.1  # from Redis to the caller
_NEW_TOPIC_WITHIN_S = 10.0
"""The time limit of a send to a new topic, which declares queues and waits until they settle. A claim lasts as long:
another send may then take the id over (`schedule.lua`)."""


@fast_dataclass(frozen=True, slots=True)
class _Request:
    """A draft with its topic's policy, the claim of its id, and the home of its record (`Keys.home`). `until_s`: the
    moment of `monotonic()` after which it is neither claimed nor published. `answer_by_s`: the moment after which its
    caller is told that it is not accepted; infinite for a caller that waits."""

    draft: Draft
    policy: Policy
    claim: Claim
    home: str
    until_s: float
    answer_by_s: float = inf


class Sending:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession(context.store, context.broker.copy_publisher)
        self._declared = context.broker.declared
        self._detours = Detours(context)
        self._topics = context.topics
        self._settings = context.settings
        self._max_retry = context.settings.max_retry
        self._answer_within_s = context.settings.answer_within_s
        self._groups = GroupCommit(self._commit, most=_GROUP, at_once=_GROUPS_AT_ONCE)

    async def send(self, draft: Draft, maker: Maker | None = None) -> Sent:
        """Sends one message. It returns once RabbitMQ has confirmed the message and Redis has its record. `maker`: as
        in `Policies.used`.

        Raises:
            InvalidRequest: the message would be due beyond the longest delay.
            BridgeError: the refusal of the maker.
            Unavailable: the message may be accepted or not. Send again with the same id.
        """
        until_s = self._until_s()
        # A new queue confirms late, and other sends should not wait for that.
        alone = self._declared.unsettled(draft.topic)
        within_s = _NEW_TOPIC_WITHIN_S if alone else self._answer_within_s
        answer_by_s = monotonic() + within_s
        try:
            async with asyncio.timeout(within_s):
                await self.check(draft)
                policy = await self._topics.used(draft.topic, maker)
                # The declare of a new topic may take longer than an answer. A send alone ends with its caller anyway.
                request = self._request(draft, policy, self._until_s() if alone else until_s, answer_by_s)
                if alone:
                    (result,) = await self._commit([request])
                else:
                    result = await self._groups.submit(request)
        except TimeoutError:
            raise StoreUnavailable(_LATE) from None
        if isinstance(result, SendUnderWay):
            (result,) = await self._insist([request])
        if isinstance(result, BridgeError):
            raise result
        return result

    async def send_many(self, drafts: Sequence[Draft], maker: Maker | None = None) -> list[Sent | BridgeError]:
        """Sends each draft independently. Returns its result or its error, in order. `maker`: as in `Policies.used`."""
        refusals = [await self._refusal(draft) for draft in drafts]
        valid = [draft for draft, refusal in zip(drafts, refusals, strict=True) if refusal is None]
        sent = iter(await self._send_all(valid, maker))
        return [next(sent) if refusal is None else refusal for refusal in refusals]

    async def check(self, draft: Draft) -> None:
        """Raises the error that `send` would refuse the draft with. Nothing is made for a refused draft.

        Raises:
            InvalidRequest, StoreUnavailable
        """
        if draft.deliver_at_ms is None:
            check_horizon("delay", draft.delay_ms or 0, draft.delay_ms or 0)
            return
        if not self._store.clock.known:
            await self._store.learn_clock()
        check_horizon("deliver_at", draft.deliver_at_ms, draft.deliver_at_ms - self._store.clock.now_ms())

    async def _refusal(self, draft: Draft) -> BridgeError | None:
        try:
            await self.check(draft)
        except BridgeError as error:
            return error
        return None

    async def _send_all(self, drafts: Sequence[Draft], maker: Maker | None) -> list[Sent | BridgeError]:
        results: list[Sent | BridgeError] = []
        busy: dict[int, _Request] = {}
        for start in range(0, len(drafts), _GROUP):
            group = drafts[start : start + _GROUP]
            try:
                policies = {topic: await self._topics.used(topic, maker) for topic in {draft.topic for draft in group}}
            except BridgeError as error:
                results += [error] * len(group)
                continue
            until_s = self._until_s()
            requests = [self._request(draft, policies[draft.topic], until_s) for draft in group]
            sent = await self._commit(requests)
            busy |= {start + at: requests[at] for at, result in enumerate(sent) if isinstance(result, SendUnderWay)}
            results += sent
        for at, result in zip(busy, await self._insist(list(busy.values())), strict=True):
            results[at] = result
        return results

    async def finish(self) -> None:
        """Waits until all sends under way have ended."""
        await self._groups.finish()

    def _until_s(self) -> float:
        return monotonic() + self._answer_within_s

    def _request(self, draft: Draft, policy: Policy, until_s: float, answer_by_s: float = inf) -> _Request:
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
            fresh=int(not draft.id),
        )
        return _Request(draft, policy, claim, self._records.keys.home(draft.topic, claim.id), until_s, answer_by_s)

    async def _insist(self, requests: list[_Request]) -> list[Sent | BridgeError]:
        """Sends again until the other sends of the same ids have ended; their messages then answer these requests. All
        requests wait together, for `_BUSY_TRIES` pauses at most."""
        results: dict[int, Sent | BridgeError] = {}
        left = list(range(len(requests)))
        for _ in range(_BUSY_TRIES):
            for start in range(0, len(left), _GROUP):
                group = left[start : start + _GROUP]
                again = [replace(requests[at], until_s=self._until_s(), answer_by_s=inf) for at in group]
                results |= zip(group, await self._commit(again), strict=True)
            left = [at for at in left if isinstance(results[at], SendUnderWay)]
            if not left:
                break
            await asyncio.sleep(_BUSY_PAUSE_S)
        return [results[at] for at in range(len(requests))]

    async def _commit(self, requests: list[_Request]) -> list[Sent | BridgeError]:
        """Sends a group. Requests whose records are on different Redis servers go separately, so that one server that
        is away fails only its own."""
        groups = self._store.apart([request.home for request in requests])
        if len(groups) == 1:
            return await self._commit_together(requests)
        ended = await asyncio.gather(*(self._commit_together([requests[at] for at in group]) for group in groups))
        results = dict(zip(chain.from_iterable(groups), chain.from_iterable(ended), strict=True))
        return [results[at] for at in range(len(requests))]

    async def _commit_together(self, requests: list[_Request]) -> list[Sent | BridgeError]:
        """Sends requests whose records are on one server."""
        calls = [self._records.schedule(request.draft.topic, request.claim) for request in requests]
        try:
            answers = await self._store.run(calls, min(request.until_s for request in requests))
        except StoreUnavailable as error:
            return [error] * len(requests)
        claims = [outcome_of(call, answer) for call, answer in zip(calls, answers, strict=True)]
        created = [at for at, claim in enumerate(claims) if claim.verdict is Verdict.CREATED]
        existing = [at for at, claim in enumerate(claims) if claim.verdict is Verdict.EXISTS]
        results: dict[int, Sent | BridgeError] = {}
        if existing:
            results |= zip(existing, await self._existing([claims[at].found for at in existing]), strict=True)
        if created:
            sent = await self._publish([requests[at] for at in created], [claims[at].found for at in created])
            results |= zip(created, sent, strict=True)
        return [
            results[at] if at in results else SendUnderWay(_under_way(request)) for at, request in enumerate(requests)
        ]

    async def _existing(self, records: list[Record]) -> list[Sent | BridgeError]:
        """The answers for ids whose messages exist: these messages."""
        calls = [self._records.look(record.topic, record.id) for record in records]
        try:
            answers = await self._store.run(calls)
        except StoreUnavailable as error:
            return [error] * len(records)
        envelopes_kept = [read_envelope(outcome_of(call, answer)) for call, answer in zip(calls, answers, strict=True)]
        return [
            Sent(message=Message(record=record, envelope=envelope), replayed=True)
            for record, envelope in zip(records, envelopes_kept, strict=True)
        ]

    async def _publish(self, requests: list[_Request], records: list[Record]) -> list[Sent | BridgeError]:
        now_ms, now_s = self._store.clock.now_ms(), monotonic()
        steps: list[Step] = []
        detours: list[int] = []
        for at, (request, record) in enumerate(zip(requests, records, strict=True)):
            if now_s >= request.until_s:  # the caller waits no more
                steps.append(Step(name=self._records.withdraw(record)))
                continue
            if detour := due_at_once(record, request.policy) and self._detours.take(record.topic):
                detours.append(at)
            steps.append(self._step(request, record, now_ms, detour=detour))
        results = await self._succession.perform(steps)
        if detours:
            await self._detours.until_released(results, detours)
        return [_answer(request, result) for request, result in zip(requests, results, strict=True)]

    def _step(self, request: _Request, record: Record, now_ms: float, *, detour: bool) -> Step:
        envelope, policy = request.draft.envelope, request.policy
        publication = first(record, envelope, policy, record.due_ms - now_ms, detour=detour)
        confirmation = Confirmation(
            id=record.id,
            epoch=record.epoch,
            nonce=record.nonce,
            created_ms=record.created_ms,
            ready=int(publication.route is Route.READY),
            direct=int(publication.kind is CopyKind.PLAIN),
            answer_by_ms=self._answer_by_ms(request),
            envelope=envelopes.pack(envelope, keep_body_max(self._settings, policy, of_wire=request.draft.of_wire)),
        )
        return Step(
            publication=publication,
            name=self._records.confirm(record.topic, confirmation),
            instead=lambda error: Step(name=self._given_up(record, error)),
        )

    def _answer_by_ms(self, request: _Request) -> int:
        """The moment, by Redis' clock, after which a confirmation would be answered too late."""
        left_s = request.answer_by_s - monotonic() - _ANSWER_TAKES_S
        return 0 if left_s == inf else int(self._store.clock.now_ms() + left_s * 1_000)

    def _given_up(self, record: Record, error: Unavailable) -> Call:
        if isinstance(error, NotPublished):
            return self._records.withdraw(record)
        return self._records.abandon(record)


def _answer(request: _Request, result: Result) -> Sent | BridgeError:
    """The answer to a send whose id was claimed."""
    if isinstance(result, Unavailable):
        return result
    outcome = named(result)
    if outcome.verdict is Verdict.CONFIRMED:
        metrics.ACCEPTED.add(outcome.found.topic)
        return Sent(message=Message(record=outcome.found, envelope=request.draft.envelope), replayed=False)
    if outcome.verdict in (Verdict.WITHDRAWN, Verdict.KEPT, Verdict.UNANSWERED):
        return StoreUnavailable(_LATE)
    if outcome.verdict is Verdict.SUPERSEDED:
        return SendUnderWay(f"another send took over the id {request.claim.id!r}: send again")
    return StoreUnavailable("Redis lost the record before the send was confirmed: send again with the same id")


def _under_way(request: _Request) -> str:
    return f"another send of the id {request.claim.id!r} is under way"
