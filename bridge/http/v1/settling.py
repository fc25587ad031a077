"""Settling what was pulled: ack, nack, and a longer lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import Call, JsonAnswer
from bridge.http.v1.operation import TOPIC, Answer, Operation
from bridge.http.v1.requests import AckManyRequest, AckRequest, ExtendRequest, NackRequest
from bridge.http.v1.results import AckedOut, MessageOut, acked_json, message_json

if TYPE_CHECKING:
    from bridge.service.pools import Pools

_MESSAGE = f"{TOPIC}/messages/{{id}}"
_PROBLEMS = (400, 404, 409, 413, 422, 503)


async def ack_many(pools: Pools, call: Call) -> Response:
    """Acks up to 1000 messages by receipts (each only under the lease it was given for) or by ids (whatever is live). A
    result for each, in order: `acked`, `stale` (its lease, or the message, has ended) or `unknown`."""
    topic, wanted = call.topic, await call.body(AckManyRequest)
    settling = pools.serving(topic).settling
    if wanted.receipts is not None:
        return JsonAnswer(acked_json(await settling.ack_receipts(topic, wanted.receipts)))
    return JsonAnswer(acked_json(await settling.ack_ids(topic, wanted.ids or [])))


async def ack(pools: Pools, call: Call) -> Response:
    """Ends the message. With a `receipt`, only under the lease it was given for: 409 when that has ended."""
    topic, message_id, wanted = call.topic, call.message_id, await call.body(AckRequest)
    return JsonAnswer(message_json(await pools.serving(topic).settling.ack(topic, message_id, wanted.receipt)))


async def nack(pools: Pools, call: Call) -> Response:
    """Gives the message back: it comes again after `delay`, else after the topic's back-off, or is dead when its
    retries are used up."""
    topic, message_id, wanted = call.topic, call.message_id, await call.body(NackRequest)
    message = await pools.serving(topic).settling.nack(
        topic, message_id, receipt=wanted.receipt, delay_ms=wanted.delay, reason=wanted.reason
    )
    return JsonAnswer(message_json(message))


async def extend(pools: Pools, call: Call) -> Response:
    """Has the lease end at `lease` from now."""
    topic, message_id, wanted = call.topic, call.message_id, await call.body(ExtendRequest)
    settling = pools.serving(topic).settling
    message = await settling.extend(topic, message_id, receipt=wanted.receipt, lease_ms=wanted.lease)
    return JsonAnswer(message_json(message))


OPERATIONS = (
    Operation(
        name="ack_many",
        group="consuming",
        method="POST",
        path=f"{TOPIC}/ack",
        run=ack_many,
        need=Need(scope=Scope.CONSUME),
        takes=AckManyRequest,
        examples={"by receipts": {"receipts": [examples.RECEIPT]}, "by ids": {"ids": ["o-1001", "o-1002"]}},
        answers={
            200: Answer(
                says="A result for each, in order",
                model=AckedOut,
                example={"results": [{"id": "o-1001", "result": "acked"}, {"id": "o-1002", "result": "stale"}]},
            )
        },
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="ack",
        group="consuming",
        method="POST",
        path=f"{_MESSAGE}/ack",
        run=ack,
        need=Need(scope=Scope.CONSUME),
        takes=AckRequest,
        examples={"under this lease": {"receipt": examples.RECEIPT}, "whatever is live": {}},
        answers={200: Answer(says="The acked message", model=MessageOut, example=examples.ACKED)},
        problems=_PROBLEMS,
    ),
    Operation(
        name="nack",
        group="consuming",
        method="POST",
        path=f"{_MESSAGE}/nack",
        run=nack,
        need=Need(scope=Scope.CONSUME),
        takes=NackRequest,
        examples={"again in 30 s": {"receipt": examples.RECEIPT, "delay": "30s", "reason": "card refused"}},
        answers={200: Answer(says="The message as it is now", model=MessageOut, example=examples.MOVED)},
        problems=_PROBLEMS,
    ),
    Operation(
        name="extend",
        group="consuming",
        method="POST",
        path=f"{_MESSAGE}/extend",
        run=extend,
        need=Need(scope=Scope.CONSUME),
        takes=ExtendRequest,
        examples={"two minutes more": {"receipt": examples.RECEIPT, "lease": "2m"}},
        answers={200: Answer(says="The message with its new lease", model=MessageOut, example=examples.LEASED)},
        problems=_PROBLEMS,
    ),
)
