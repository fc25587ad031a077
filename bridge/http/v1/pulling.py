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
from bridge.service.settlements import Settlements, ToSettle, settle

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


async def pull(pools: Pools, call: ApiCall) -> Response:
    """Takes up to `max` ready messages, and waits up to `wait` for the first.

    Each message is leased to the caller. Ack it before the lease ends, with its `receipt`; otherwise it is delivered
    again. A client that disconnects while it waits takes no message.

    `ack` and `nack` settle earlier messages of the topic, so a consumer of single messages needs one request for each.
    They take effect before the pull, so neither its wait nor a failure nor a client that disconnects prevents that.
    `acked` and `nacked` have one result for each receipt, in order: `acked`; `nacked` (also if the message became a
    dead letter); `stale` (the lease or the message has ended); `unknown` (no such message, or not a receipt). A message
    nacked with a delay of 0 may come in the same answer.

    Any answer but 200: no message was handed out. The acks and nacks may have taken effect, or not, so send them again.
    A repeated ack is answered `acked`, and a repeated nack `stale`.
    """
    topic, wanted = call.topic, await call.body(PullRequest)
    acks = None if wanted.ack is None else [(topic, receipt) for receipt in wanted.ack]
    nacks = None if wanted.nack is None else [(topic, item.nack()) for item in wanted.nack]
    return await _pull(pools, call, [topic], wanted, ToSettle(acks, nacks))


async def pull_by_priority(pools: Pools, call: ApiCall) -> Response:
    """Pulls from several topics in strict order: takes messages of a topic only if the topics before it have fewer than
    `max`.

    Each of `ack` and `nack` names the topic of its message, as a receipt does not. It is one of `topics`. Otherwise
    they are as in a pull from one topic.

    422: the topics belong to several pools.
    """
    wanted = await call.body(PullManyRequest)
    call.caller.check(*wanted.topics)
    acks = None if wanted.ack is None else [(item.topic, item.receipt) for item in wanted.ack]
    nacks = None if wanted.nack is None else [(item.topic, item.nack()) for item in wanted.nack]
    return await _pull(pools, call, wanted.topics, wanted, ToSettle(acks, nacks))


async def _pull(
    pools: Pools, call: ApiCall, topics: Sequence[str], wanted: PullRequest | PullManyRequest, to_settle: ToSettle
) -> Response:
    service, wait_ms = pools.serving_all(topics), wanted.wait or 0
    settled = Settlements() if to_settle.is_nothing else await settle(service.settling, to_settle)
    work = service.pulling.pull(topics, limit=wanted.max or 1, wait_ms=wait_ms, lease_ms=wanted.lease)
    leased = await (call.while_connected(work) if wait_ms else work)
    return JsonAnswer(pulled_out(leased, settled.acked, settled.nacked))


_ANSWERS = {
    200: ResponseDoc(
        description="The messages with their receipts. An empty list: no message was ready in time",
        model=PulledOut,
        example={
            "messages": [examples.LEASED | {"receipt": examples.RECEIPT}],
            "acked": [{"id": "o-1000", "result": "acked"}],
        },
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
        examples={
            "up to ten, waiting up to 20 s": {"max": 10, "wait": "20s", "lease": "60s"},
            "one": {},
            "the next one, with an ack of the one before": {"wait": "20s", "ack": [examples.EARLIER_RECEIPT]},
            "with a message given back": {
                "nack": [{"receipt": examples.EARLIER_RECEIPT, "delay": "30s", "reason": "card refused"}]
            },
        },
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
        examples={
            "urgent before normal": {"topics": ["urgent", "normal"], "max": 10, "wait": "20s"},
            "with an ack": {
                "topics": ["urgent", "normal"],
                "wait": "20s",
                "ack": [{"topic": "normal", "receipt": examples.EARLIER_RECEIPT}],
            },
        },
        answers=_ANSWERS,
        problems=(400, 413, 422, 503),
    ),
)
