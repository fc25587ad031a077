"""Settles pulled messages: ack, nack, and a longer lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.requests import AckManyRequest, AckRequest, ExtendRequest, NackRequest
from bridge.http.v1.contract.results import AckedOut, MessageOut, acked_out, message_out
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_MESSAGE = f"{TOPIC}/messages/{{id}}"
_PROBLEMS = (400, 404, 409, 413, 422, 503)


async def ack_many(pools: Pools, call: ApiCall) -> Response:
    """Acks up to 1000 messages, by `receipts` or by `ids`.

    A receipt acks its message only during the receipt's lease. An id acks the live message, leased or not, if a
    consumer may have received it: for AMQP consumers and for late acks. `results` has one entry for each receipt or id,
    in order: `acked`, `stale` (the lease or the message has ended), `not_leased` (the message waits for its first
    delivery) or `unknown` (no such message).
    """
    topic, wanted = call.topic, await call.body(AckManyRequest)
    settling = pools.serving(topic).settling
    if wanted.receipts is not None:
        return JsonAnswer(acked_out(await settling.ack_receipts(topic, wanted.receipts)))
    return JsonAnswer(acked_out(await settling.ack_delivered(topic, wanted.ids or [])))


async def ack(pools: Pools, call: ApiCall) -> Response:
    """Ends the message: it is not delivered again.

    A call with a `receipt` succeeds only during the lease of that receipt. 404: the topic has no message with this id.
    409: the lease or the message has ended, or nobody has received the message: it waits for its first delivery.
    """
    topic, message_id, wanted = call.topic, call.message_id, await call.body(AckRequest)
    return JsonAnswer(message_out(await pools.serving(topic).settling.ack(topic, message_id, wanted.receipt)))


async def nack(pools: Pools, call: ApiCall) -> Response:
    """Gives back a message that the caller could not process, with an optional `reason`.

    The message is delivered again after `delay`. Without `delay`, the topic's back-off counts, or the bridge's default
    back-off if the topic has none. If the message's retries are used up, it becomes a dead letter. If Redis did not
    keep the message's body, the message is delivered again when its lease would have ended. If the retries are used up
    as well, it stays leased until then, and is a dead letter after that.

    404: the topic has no message with this id. 409: the lease of the receipt has ended, or the message is not leased.
    """
    topic, message_id, wanted = call.topic, call.message_id, await call.body(NackRequest)
    message = await pools.serving(topic).settling.nack(
        topic, message_id, receipt=wanted.receipt, delay_ms=wanted.delay, reason=wanted.reason
    )
    return JsonAnswer(message_out(message))


async def extend(pools: Pools, call: ApiCall) -> Response:
    """Makes the lease last at least `lease` from now. A lease that lasts longer already does not change.

    404: the topic has no message with this id. 409: the lease of the receipt has ended, or the message is not leased.
    """
    topic, message_id, wanted = call.topic, call.message_id, await call.body(ExtendRequest)
    settling = pools.serving(topic).settling
    message = await settling.extend(topic, message_id, receipt=wanted.receipt, lease_ms=wanted.lease)
    return JsonAnswer(message_out(message))


OPERATIONS = (
    Operation(
        name="ack_many",
        summary="Ack messages",
        group="consuming",
        method="POST",
        path=f"{TOPIC}/ack",
        run=ack_many,
        need=Need(scope=Scope.CONSUME),
        takes=AckManyRequest,
        examples={"by receipts": {"receipts": [examples.RECEIPT]}, "by ids": {"ids": ["o-1001", "o-1002"]}},
        answers={
            200: ResponseDoc(
                description="One result for each receipt or id, in order",
                model=AckedOut,
                example={"results": [{"id": "o-1001", "result": "acked"}, {"id": "o-1002", "result": "stale"}]},
            )
        },
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="ack",
        summary="Ack one message",
        group="consuming",
        method="POST",
        path=f"{_MESSAGE}/ack",
        run=ack,
        need=Need(scope=Scope.CONSUME),
        takes=AckRequest,
        examples={"during this lease": {"receipt": examples.RECEIPT}, "whatever lease it has": {}},
        answers={200: ResponseDoc(description="The acked message", model=MessageOut, example=examples.ACKED)},
        problems=_PROBLEMS,
    ),
    Operation(
        name="nack",
        summary="Nack one message",
        group="consuming",
        method="POST",
        path=f"{_MESSAGE}/nack",
        run=nack,
        need=Need(scope=Scope.CONSUME),
        takes=NackRequest,
        examples={"deliver again in 30 s": {"receipt": examples.RECEIPT, "delay": "30s", "reason": "card refused"}},
        answers={
            200: ResponseDoc(
                description="The message, which is waiting or dead", model=MessageOut, example=examples.MOVED
            )
        },
        problems=_PROBLEMS,
    ),
    Operation(
        name="extend",
        summary="Extend a lease",
        group="consuming",
        method="POST",
        path=f"{_MESSAGE}/extend",
        run=extend,
        need=Need(scope=Scope.CONSUME),
        takes=ExtendRequest,
        examples={"two minutes from now": {"receipt": examples.RECEIPT, "lease": "2m"}},
        answers={
            200: ResponseDoc(
                description="The message with its new lease_until", model=MessageOut, example=examples.LEASED
            )
        },
        problems=_PROBLEMS,
    ),
)
