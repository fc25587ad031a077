"""Pulling: taking ready messages under a lease, from one topic or from several in order of priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import Call, JsonAnswer
from bridge.http.v1.operation import TOPIC, Answer, Operation
from bridge.http.v1.requests import PullManyRequest, PullRequest
from bridge.http.v1.results import PulledOut, pulled_json

if TYPE_CHECKING:
    from bridge.service.pools import Pools


async def pull(pools: Pools, call: Call) -> Response:
    """Takes up to `max` ready messages, waiting up to `wait` for the first. Each is the caller's until its lease ends;
    then it is ready again, unless it was acked. A caller that goes away while it waits takes nothing."""
    topic, wanted = call.topic, await call.body(PullRequest)
    return await _pull(pools, call, [topic], wanted)


async def pull_by_priority(pools: Pools, call: Call) -> Response:
    """The same from several topics, in strict order: a later one is asked only for what earlier ones do not have."""
    wanted = await call.body(PullManyRequest)
    call.caller.check(*wanted.topics)
    return await _pull(pools, call, wanted.topics, wanted)


async def _pull(pools: Pools, call: Call, topics: Sequence[str], wanted: PullRequest) -> Response:
    wait_ms = wanted.wait or 0
    pulling = pools.serving_all(topics).pulling
    work = pulling.pull(topics, limit=wanted.max or 1, wait_ms=wait_ms, lease_ms=wanted.lease)
    leased = await (call.while_connected(work) if wait_ms else work)
    return JsonAnswer(pulled_json(leased))


_ANSWERS = {
    200: Answer(
        says="The messages with their receipts; none where there was none",
        model=PulledOut,
        example={"messages": [examples.LEASED | {"receipt": examples.RECEIPT}]},
    )
}

OPERATIONS = (
    Operation(
        name="pull",
        group="consuming",
        method="POST",
        path=f"{TOPIC}/pull",
        run=pull,
        need=Need(scope=Scope.CONSUME, rated=True),
        takes=PullRequest,
        examples={"ten, waiting up to 20 s": {"max": 10, "wait": "20s", "lease": "60s"}, "one": {}},
        answers=_ANSWERS,
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="pull_by_priority",
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
