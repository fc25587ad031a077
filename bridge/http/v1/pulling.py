"""Pulls ready messages under a lease, from one topic or from several in order of priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.requests import PullManyRequest, PullRequest
from bridge.http.v1.contract.results import PulledOut, pulled_out
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


async def pull(pools: Pools, call: ApiCall) -> Response:
    """Takes up to `max` ready messages, and waits up to `wait` for the first.

    Each message is leased to the caller. Ack it before the lease ends, with its `receipt`; otherwise it is delivered
    again. A client that disconnects while it waits takes no message."""
    topic, wanted = call.topic, await call.body(PullRequest)
    return await _pull(pools, call, [topic], wanted)


async def pull_by_priority(pools: Pools, call: ApiCall) -> Response:
    """Pulls from several topics in strict order: takes messages of a topic only if the topics before it have fewer than
    `max`.

    422: the topics belong to several pools."""
    wanted = await call.body(PullManyRequest)
    call.caller.check(*wanted.topics)
    return await _pull(pools, call, wanted.topics, wanted)


async def _pull(pools: Pools, call: ApiCall, topics: Sequence[str], wanted: PullRequest) -> Response:
    wait_ms = wanted.wait or 0
    pulling = pools.serving_all(topics).pulling
    work = pulling.pull(topics, limit=wanted.max or 1, wait_ms=wait_ms, lease_ms=wanted.lease)
    leased = await (call.while_connected(work) if wait_ms else work)
    return JsonAnswer(pulled_out(leased))


_ANSWERS = {
    200: ResponseDoc(
        description="The messages with their receipts. An empty list: no message was ready in time",
        model=PulledOut,
        example={"messages": [examples.LEASED | {"receipt": examples.RECEIPT}]},
    )
}

OPERATIONS = (
    Operation(
        name="pull",
        summary="Pull messages",
        group="consuming",
        method="POST",
        path=f"{TOPIC}/pull",
        run=pull,
        need=Need(scope=Scope.CONSUME, rated=True),
        takes=PullRequest,
        examples={"up to ten, waiting up to 20 s": {"max": 10, "wait": "20s", "lease": "60s"}, "one": {}},
        answers=_ANSWERS,
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="pull_by_priority",
        summary="Pull messages from several topics by priority",
        group="consuming",
        method="POST",
        path="/v1/pull",
        run=pull_by_priority,
        need=Need(scope=Scope.CONSUME, rated=True),
        takes=PullManyRequest,
        examples={"urgent before normal": {"topics": ["urgent", "normal"], "max": 10, "wait": "20s"}},
        answers=_ANSWERS,
        problems=(400, 413, 422, 503),
    ),
)
