"""Looks up, lists, moves and deletes messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import ApiCall, JsonAnswer
from bridge.http.v1.operation import TOPIC, Operation, ResponseDoc
from bridge.http.v1.queries import DeleteQuery, ListQuery
from bridge.http.v1.requests import MoveRequest
from bridge.http.v1.results import MessageOut, PageOut, message_json, page_json

if TYPE_CHECKING:
    from bridge.service.pools import Pools

_MESSAGE = f"{TOPIC}/messages/{{id}}"


async def look_up(pools: Pools, call: ApiCall) -> Response:
    """Returns the message with its state. An ended message is kept for the retention time, by default one hour.

    404: the topic has no message with this id, or its retention time is over."""
    topic, message_id = call.topic, call.message_id
    return JsonAnswer(message_json(await pools.serving(topic).lookup.get(topic, message_id)))


async def list_messages(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of the topic's messages, by due time.

    Give `next_cursor` as `cursor` for the next page. It is null on the last page. 404: there is no such topic."""
    topic, query = call.topic, call.query(ListQuery)
    service = pools.serving(topic)
    page = await service.lookup.page(
        topic,
        states=query.state,
        due_after_ms=query.due_after,
        due_before_ms=query.due_before,
        limit=query.limit,
        cursor=query.cursor,
    )
    if not page.items:
        await service.topics.known(topic)
    return JsonAnswer(page_json(page))


async def move(pools: Pools, call: ApiCall) -> Response:
    """Changes when a waiting message is due. A `delay` of 0 makes it due now.

    404: the topic has no message with this id. 409: the message no longer waits (`state` says why), or it would be due
    earlier and its body was not kept in Redis."""
    topic, message_id, wanted = call.topic, call.message_id, await call.body(MoveRequest)
    changing = pools.serving(topic).changing
    moved = await changing.move(topic, message_id, delay_ms=wanted.delay, deliver_at_ms=wanted.deliver_at)
    return JsonAnswer(message_json(moved))


async def delete(pools: Pools, call: ApiCall) -> Response:
    """Deletes a message. If the answer arrives before the message is due, no consumer gets it.

    Idempotent: a repeated delete answers 200 again. 404: the topic has no message with this id. 409: the message has
    ended in another way (`state` says which), or is due within 5 ms and being released (`state` is `ready`)."""
    topic, message_id, query = call.topic, call.message_id, call.query(DeleteQuery)
    changing = pools.serving(topic).changing
    return JsonAnswer(message_json(await changing.delete(topic, message_id, release=query.release == "true")))


OPERATIONS = (
    Operation(
        name="look_up",
        summary="Look up a message",
        group="messages",
        method="GET",
        path=_MESSAGE,
        run=look_up,
        need=Need(scope=Scope.LOOK),
        answers={200: ResponseDoc(description="The message", model=MessageOut, example=examples.MESSAGE)},
        problems=(404, 422, 503),
    ),
    Operation(
        name="list_messages",
        summary="List messages",
        group="messages",
        method="GET",
        path=f"{TOPIC}/messages",
        run=list_messages,
        need=Need(scope=Scope.LOOK),
        query=ListQuery,
        answers={
            200: ResponseDoc(
                description="A page of messages",
                model=PageOut,
                example={"items": [examples.MESSAGE], "next_cursor": examples.CURSOR},
            )
        },
        problems=(404, 422, 503),
    ),
    Operation(
        name="move",
        summary="Move a message to another time",
        group="messages",
        method="PATCH",
        path=_MESSAGE,
        run=move,
        need=Need(scope=Scope.SEND),
        takes=MoveRequest,
        examples={
            "in an hour": {"delay": "1h"},
            "at a moment": {"deliver_at": "2026-12-01T10:00:00Z"},
            "now": {"delay": 0},
        },
        answers={
            200: ResponseDoc(description="The message with its new due time", model=MessageOut, example=examples.MOVED)
        },
        problems=(400, 404, 409, 413, 422, 503),
    ),
    Operation(
        name="delete",
        summary="Delete a message",
        group="messages",
        method="DELETE",
        path=_MESSAGE,
        run=delete,
        need=Need(scope=Scope.SEND),
        query=DeleteQuery,
        answers={200: ResponseDoc(description="The deleted message", model=MessageOut, example=examples.DELETED)},
        problems=(404, 409, 422, 503),
    ),
)
