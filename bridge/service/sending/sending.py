"""Sends messages: checks a draft, finds its topic's policy, and commits it together with other sends that have come."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from time import monotonic

from bridge.model.errors import BridgeError, SendUnderWay, StoreUnavailable
from bridge.model.group_commit import GroupCommit
from bridge.model.message import new_nonce
from bridge.model.ulids import new_ulid
from bridge.model.values import Draft, Effective, Policy, Sent
from bridge.service.context import Context
from bridge.service.horizon import check_horizon
from bridge.service.sending.send_groups import LATE, SendGroups, SendRequest
from bridge.service.sending.targets import check_target
from bridge.service.topics.maker import Maker
from bridge.store.messages.records import Claim

_GROUP = 256
_GROUPS_AT_ONCE = 3
_BUSY_PAUSE_S = 0.05
_BUSY_TRIES = 36  # the first send to a new topic takes over a second
_NEW_TOPIC_WITHIN_S = 10.0
"""The time limit of a send to a new topic, which declares queues and waits until their confirms count. A claim lasts as
long: after that, another send may take over the id (`schedule.lua`)."""


class Sending:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._declared = context.broker.declared
        self._topics = context.topics
        self._answer_within_s = context.settings.answer_within_s
        self._commit = SendGroups(context).commit
        self._groups = GroupCommit(self._commit, most=_GROUP, at_once=_GROUPS_AT_ONCE)

    async def send(self, draft: Draft, maker: Maker | None = None) -> Sent:
        """Sends one message. Returns once RabbitMQ has confirmed the message and Redis has its record. If a message
        already has the id, returns that message (`Sent.replayed`). `maker`: a client with a limited number of topics;
        None: no limit.

        Raises:
            InvalidRequest: the message would be due beyond the longest delay, or its target may not be used.
            BridgeError: `maker` may make no more topics.
            Unavailable: the message may be accepted or not. Send again with the same id.
        """
        until_s = self._until_s()
        # A confirm by a new queue counts late, and other sends should not wait for that.
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
            raise StoreUnavailable(LATE) from None
        if isinstance(result, SendUnderWay):
            (result,) = await self._insist([request])
        if isinstance(result, BridgeError):
            raise result
        return result

    async def send_many(
        self, drafts: Sequence[Draft], maker: Maker | None = None, *, by_s: float = inf
    ) -> list[Sent | BridgeError]:
        """Sends each draft independently. Returns for each draft its result or its error, in order. `maker`: a client
        with a limited number of topics; None: no limit. `by_s`: a moment of `monotonic()`. No send claims an id after
        this moment, even if the network delayed its call to Redis."""
        refusals = [await self._refusal(draft) for draft in drafts]
        valid = [draft for draft, refusal in zip(drafts, refusals, strict=True) if refusal is None]
        sent = iter(await self._send_all(valid, maker, by_s))
        return [next(sent) if refusal is None else refusal for refusal in refusals]

    async def check(self, draft: Draft) -> None:
        """Checks the draft's target and due moment before the send, because no topic is made for a refused draft.

        Raises:
            InvalidRequest: the target is the default exchange or one of the bridge's own, or the message would be due
                beyond the longest delay.
            StoreUnavailable: Redis did not say its time.
        """
        check_target(self._declared, draft.envelope.target)
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

    async def _send_all(self, drafts: Sequence[Draft], maker: Maker | None, by_s: float) -> list[Sent | BridgeError]:
        results: list[Sent | BridgeError] = []
        busy: dict[int, SendRequest] = {}
        for start in range(0, len(drafts), _GROUP):
            group = drafts[start : start + _GROUP]
            policies = {topic: await self._policy(topic, maker) for topic in {draft.topic for draft in group}}
            until_s = min(self._until_s(), by_s)
            requests: dict[int, SendRequest] = {}
            for at, draft in enumerate(group, start):
                policy = policies[draft.topic]
                if isinstance(policy, Policy):
                    requests[at] = self._request(draft, policy, until_s)
                results.append(StoreUnavailable(LATE) if isinstance(policy, Policy) else policy)
            sent = await self._commit(list(requests.values())) if requests else []
            for (at, request), result in zip(requests.items(), sent, strict=True):
                results[at] = result
                if isinstance(result, SendUnderWay):
                    busy[at] = request
        for at, result in zip(busy, await self._insist(list(busy.values()), by_s), strict=True):
            results[at] = result
        return results

    async def _policy(self, topic: str, maker: Maker | None) -> Effective | BridgeError:
        try:
            return await self._topics.used(topic, maker)
        except BridgeError as error:
            return error

    async def finish(self) -> None:
        """Waits until no group of sends is in flight. Sends to new topics are in no group."""
        await self._groups.finish()

    def _until_s(self) -> float:
        return monotonic() + self._answer_within_s

    def _request(self, draft: Draft, policy: Effective, until_s: float, answer_by_s: float = inf) -> SendRequest:
        ttl_ms = policy.ttl_of(draft)
        claim = Claim(
            id=draft.id or new_ulid(),
            ttl_ms=-1 if ttl_ms is None else ttl_ms,
            max_retry=policy.retries_of(draft),
            nonce=new_nonce(),
            by=self._records.by(),
        )
        return SendRequest(draft, policy, claim, self._records.keys.home(draft.topic, claim.id), until_s, answer_by_s)

    async def _insist(self, requests: list[SendRequest], by_s: float = inf) -> list[Sent | BridgeError]:
        """Repeats sends whose ids other sends have claimed, until the other sends have ended. A request is then
        answered with the other send's message, if the bridge accepted that message. All requests wait together, for
        `_BUSY_TRIES` pauses at most."""
        results: dict[int, Sent | BridgeError] = {}
        left = list(range(len(requests)))
        for _ in range(_BUSY_TRIES):
            for start in range(0, len(left), _GROUP):
                group = left[start : start + _GROUP]
                until_s = min(self._until_s(), by_s)
                again = [replace(requests[at], until_s=until_s, answer_by_s=inf) for at in group]
                results |= zip(group, await self._commit(again), strict=True)
            left = [at for at in left if isinstance(results[at], SendUnderWay)]
            if not left:
                break
            await asyncio.sleep(_BUSY_PAUSE_S)
        return [results[at] for at in range(len(requests))]
