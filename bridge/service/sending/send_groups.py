"""Commits sends in groups: publishes their copies, and makes their records.

There are two ways. An id that the caller gave is claimed first, as another send may have it:

    claim the id (`schedule`) ──> publish the copy ──> confirm the record (`confirm`)

Nobody else knows an id that the bridge has made, so there is nothing to claim:

    publish the copy ──> enter the record (`enter`)

On the second way, the record must be entered before the copy arrives. So a message takes this way only if its delay is
longer than the time limit of a send.

A crash in between leaves at most a copy, which is delivered. On the first way it may also leave an unconfirmed record,
with which the bridge answers no other send. So an accepted message always exists. The sends of a group share one burst
of publishes. Sends whose records are in one cluster slot share the calls of the scripts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain
from math import inf
from time import monotonic
from typing import Final, assert_never

from bridge.broker.publications import Publication, Route
from bridge.metrics.messages import ACCEPTED
from bridge.model.errors import (
    BridgeError,
    BrokerUnavailable,
    NotPublished,
    SendUnderWay,
    StoreUnavailable,
    Unavailable,
    UnnamedVerdict,
)
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import CopyKind, Message, Record
from bridge.model.recent import Recent
from bridge.model.values import Draft, Policy, Sent
from bridge.service.context import Context
from bridge.service.protocol.kept_bodies import keep_body_max
from bridge.service.protocol.steps import Nothing, Result, Step, Succeed, Update
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import due_at_once, first
from bridge.service.sending.detours import Detours, Ended
from bridge.service.sending.made_ids import unclaimed
from bridge.store.calls import Call
from bridge.store.messages import envelopes
from bridge.store.messages.outcomes import Outcome, read_envelope
from bridge.store.messages.records import Claim
from bridge.store.messages.verdicts import (
    AbandonVerdict,
    ConfirmVerdict,
    EnterVerdict,
    ScheduleVerdict,
    WithdrawVerdict,
)

LATE: Final = "Redis or RabbitMQ did not answer in time"
_ANSWER_TAKES_S = 0.1  # from Redis to the caller
_MARGIN_MS = 1_000
_MOST_REFUSING = 1_000


@fast_dataclass(frozen=True, slots=True)
class SendRequest:
    """A draft with its topic's policy, the claim of its id, and the home of its record: a key on the Redis server that
    has the record (`Keys.home`). `until_s`: after this moment of `monotonic()`, the draft is neither claimed nor
    published. `answer_by_s`: at this moment of `monotonic()` the caller gets an error; infinite for a caller without a
    time limit."""

    draft: Draft
    policy: Policy
    claim: Claim
    home: str
    until_s: float
    answer_by_s: float = inf


@fast_dataclass(frozen=True, slots=True)
class _Send:
    """A send whose copy is published next. `claimed`: whether a script has claimed the id and so made the record. If
    True, another script confirms the record after the publish. If False, a script makes the record after the publish.
    """

    request: SendRequest
    record: Record
    claimed: bool


class SendGroups:
    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_calls(context)
        self._detours = Detours(context)
        self._settings = context.settings
        self._least_ms = int(context.settings.answer_within_s * 1_000) + _MARGIN_MS
        # Homes whose server refused to enter a record. There, sends claim all ids until a claim succeeds. Otherwise
        # each send that is refused and repeated would publish a further copy.
        self._refusing = Recent[str, bool](_MOST_REFUSING)

    async def commit(self, requests: list[SendRequest]) -> list[Sent | BridgeError]:
        """Sends a group of requests. Returns for each its result or its error, in order. Requests whose records are on
        different Redis servers go separately, so a server that is away fails only its own requests."""
        groups = self._store.by_server([request.home for request in requests])
        if len(groups) == 1:
            return await self._commit_together(requests)
        ended = await asyncio.gather(*(self._commit_together([requests[at] for at in group]) for group in groups))
        results = dict(zip(chain.from_iterable(groups), chain.from_iterable(ended), strict=True))
        return [results[at] for at in range(len(requests))]

    async def _commit_together(self, requests: list[SendRequest]) -> list[Sent | BridgeError]:
        """Sends requests whose records are on one server."""
        results: dict[int, Sent | BridgeError] = {}
        latest_ms = self._store.clock.latest_ms()
        sends: dict[int, _Send] = {}
        claiming: dict[int, SendRequest] = {}
        for at, request in enumerate(requests):
            record = unclaimed(request.draft, request.claim, latest_ms, least_ms=self._least_ms)
            if record is None or self._refusing.get(request.home):
                claiming[at] = request
            else:
                sends[at] = _Send(request, record, claimed=False)
        if claiming:
            await self._claim(claiming, sends, results)
        if sends:
            results |= zip(sends, await self._publish(list(sends.values())), strict=True)
        return [results[at] for at in range(len(requests))]

    async def _claim(
        self, requests: Mapping[int, SendRequest], sends: dict[int, _Send], results: dict[int, Sent | BridgeError]
    ) -> None:
        """Claims ids. Adds each request to `sends` if its id is claimed. For each other request, adds the result to
        `results`."""
        calls = [self._records.schedule(request.draft, request.claim) for request in requests.values()]
        try:
            answers = await self._store.run_each(calls, min(request.until_s for request in requests.values()))
        except StoreUnavailable as error:
            results |= dict.fromkeys(requests, error)
            return
        for request in requests.values():
            self._refusing.forget(request.home)
        existing: dict[int, Outcome[ScheduleVerdict]] = {}
        for at, claimed in zip(requests, answers, strict=True):
            if isinstance(claimed, UnnamedVerdict):
                results[at] = claimed
                continue
            match claimed.verdict:
                case ScheduleVerdict.CREATED:
                    sends[at] = _Send(requests[at], claimed.found, claimed=True)
                case ScheduleVerdict.EXISTS:
                    existing[at] = claimed
                case ScheduleVerdict.BUSY:
                    results[at] = SendUnderWay(f"another send of the id {requests[at].claim.id!r} is under way")
                case _:
                    assert_never(claimed.verdict)
        if existing:
            results |= zip(existing, await self._existing(list(existing.values())), strict=True)

    async def _existing(self, claims: list[Outcome[ScheduleVerdict]]) -> list[Sent | BridgeError]:
        """Returns the results for sends whose ids exist already: the messages of these ids."""
        records = [claim.found for claim in claims]
        calls = [self._records.look(record.topic, record.id) for record in records]
        try:
            looked = await self._store.run(calls)
        except (StoreUnavailable, UnnamedVerdict) as error:
            return [error] * len(records)
        return [
            Sent(
                message=Message(record=claim.found, envelope=read_envelope(one)),
                replayed=True,
                unanswered=bool(claim.extra),
            )
            for claim, one in zip(claims, looked, strict=True)
        ]

    async def _publish(self, sends: list[_Send]) -> list[Sent | BridgeError]:
        now_ms, now_s = self._store.clock.now_ms(), monotonic()
        steps: list[Step[Ended]] = []
        detours: list[int] = []
        for at, send in enumerate(sends):
            record, request = send.record, send.request
            if now_s >= request.until_s:  # too late to publish
                steps.append(Update(self._records.withdraw(record)) if send.claimed else Nothing())
                continue
            to_topic = request.draft.envelope.target is None
            if detour := to_topic and due_at_once(record, request.policy) and self._detours.take(record.topic):
                detours.append(at)
            steps.append(self._step(send, now_ms, detour=detour))
        results = await self._succession.perform(steps)
        await self._give_up(sends, results)
        for send, result in zip(sends, results, strict=True):
            if isinstance(result, StoreUnavailable) or _is_full(result):
                self._refusing.note(send.request.home, True)
        if detours:
            await self._detours.until_ready(results, detours)
        return [_answer(send.request, result) for send, result in zip(sends, results, strict=True)]

    def _step(self, send: _Send, now_ms: float, *, detour: bool) -> Step[Ended]:
        request, record = send.request, send.record
        draft, policy = request.draft, request.policy
        publication = first(record, draft.envelope, policy, record.due_ms - now_ms, detour=detour)
        kept = envelopes.pack(
            draft.envelope,
            keep_body_max(self._settings, policy, of_wire=draft.of_wire),
            digested=bool(draft.id),
        )
        if send.claimed:
            return Succeed(publication, self._confirm(request, record, publication, kept))
        return Succeed(publication, self._enter(request, record, publication, kept))

    def _enter(
        self, request: SendRequest, record: Record, publication: Publication, kept: bytes
    ) -> Call[Outcome[EnterVerdict]]:
        return self._records.enter(
            record,
            direct=publication.kind is CopyKind.PLAIN,
            instant=request.draft.deliver_at_ms is not None,
            envelope=kept,
            by=request.claim.by,
        )

    def _confirm(
        self, request: SendRequest, record: Record, publication: Publication, kept: bytes
    ) -> Call[Outcome[ConfirmVerdict]]:
        return self._records.confirm(
            record,
            ready=publication.route is Route.READY,
            direct=publication.kind is CopyKind.PLAIN,
            answer_by_ms=self._answer_by_ms(request),
            envelope=kept,
        )

    def _answer_by_ms(self, request: SendRequest) -> int:
        """Returns the moment of Redis' clock, in Unix ms, after which the answer to a confirm would reach the caller
        too late. 0: the caller has no time limit."""
        left_s = request.answer_by_s - monotonic() - _ANSWER_TAKES_S
        return 0 if left_s == inf else int(self._store.clock.now_ms() + left_s * 1_000)

    async def _give_up(self, sends: Sequence[_Send], results: Sequence[Result[Ended]]) -> None:
        """Gives up the claims of sends whose copies RabbitMQ did not confirm."""
        await self._succession.perform(
            [
                Update(self._given_up(send.record, result))
                for send, result in zip(sends, results, strict=True)
                if send.claimed and isinstance(result, BrokerUnavailable)
            ]
        )

    def _given_up(
        self, record: Record, error: BrokerUnavailable
    ) -> Call[Outcome[WithdrawVerdict]] | Call[Outcome[AbandonVerdict]]:
        if isinstance(error, NotPublished):
            return self._records.withdraw(record)
        return self._records.abandon(record)


def _answer(request: SendRequest, result: Result[Ended]) -> Sent | BridgeError:
    """Returns the result of a send that was published, or that came too late to be published."""
    if isinstance(result, Unavailable):
        return result
    if result is None:
        return StoreUnavailable(LATE)
    match result.verdict:
        case ConfirmVerdict.CONFIRMED | EnterVerdict.ENTERED:
            ACCEPTED.add(result.found.topic)
            return Sent(message=Message(record=result.found, envelope=request.draft.envelope), replayed=False)
        case WithdrawVerdict.WITHDRAWN | WithdrawVerdict.KEPT | ConfirmVerdict.UNANSWERED | EnterVerdict.UNANSWERED:
            return StoreUnavailable(LATE)
        case ConfirmVerdict.SUPERSEDED:
            return SendUnderWay(f"another send took over the id {request.claim.id!r}: send again")
        case ConfirmVerdict.MISSING:
            return StoreUnavailable("Redis lost the record before the send was confirmed: send again with the same id")
        case _:
            assert_never(result.verdict)


def _is_full(result: Result[Ended]) -> bool:
    """Whether Redis has entered a message although Redis' memory is full."""
    return isinstance(result, Outcome) and result.verdict is EnterVerdict.ENTERED and bool(result.extra)
