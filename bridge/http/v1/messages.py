"""Looks up, lists, changes and deletes messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.content import changed_envelope
from bridge.http.v1.contract.queries import DeleteQuery, ListQuery
from bridge.http.v1.contract.requests import ChangeRequest
from bridge.http.v1.contract.results import MessageOut, PageOut, message_out, page_out
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, HeaderDoc, Operation, ResponseDoc
from bridge.http.v1.operation.preconditions import ETAG, IF_MATCH, LONGEST, Precondition, etag_header
from bridge.model.labels import packed
from bridge.model.message import Message
from bridge.model.values import Change

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_MESSAGE = f"{TOPIC}/messages/{{id}}"


async def look_up(pools: Pools, call: ApiCall) -> Response:
    """Returns the message with its state. An ended message is kept for the retention time: by default an hour, after a
    delete a week.

    `ETag` is different after each change. Give it as `If-Match` to a change or a delete. 404: the topic has no message
    with this id, or its retention time is over.
    """
    topic, message_id = call.topic, call.message_id
    return _tagged(await pools.serving(topic).lookup.get(topic, message_id))


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
    return JsonAnswer(page_out(page))


async def change(pools: Pools, call: ApiCall) -> Response:
    """Changes a waiting message: when it is due, its content, its limits, its labels, or several of them at once. A
    `delay` of 0 makes it due now.

    A `body` without `content_type` is read by the content type that the message has. The time to live moves with the
    due time, unless `ttl` is given. 404: the topic has no message with this id. 409: the message no longer waits
    (`state` says why), or the change needs the message's body, which Redis did not keep. 412: the message has another
    ETag than `If-Match` says, and nothing was changed. To change the content of a message with a target, the token must
    allow the target."""
    topic, message_id, precondition = call.topic, call.message_id, Precondition(call.scope["headers"])
    wanted, service = await call.body(ChangeRequest), pools.serving(topic)
    message = await service.lookup.get(topic, message_id)
    precondition.check(message.record)
    if wanted.has_content and message.envelope is not None:
        call.caller.check_target(message.envelope.target)
    max_body_bytes = call.caller.max_body(pools.settings.max_body)
    change = Change(
        envelope=changed_envelope(wanted, message.envelope, max_body_bytes) if wanted.has_content else None,
        delay_ms=wanted.delay,
        deliver_at_ms=wanted.deliver_at,
        ttl_ms=wanted.ttl,
        max_retry=wanted.max_retry,
        labels=None if wanted.labels is None else packed(wanted.labels),
    )
    return _tagged(await service.changing.change(message, change, as_seen=precondition.is_given))


async def delete(pools: Pools, call: ApiCall) -> Response:
    """Deletes a message. If the answer arrives before the message is due, no consumer gets the message.

    Idempotent: a repeated delete answers 200 again. 404: the topic has no message with this id. 409: the message has
    ended in another way (`state` says which), or is due within 5 ms and being released (`state` is `ready`). 412: the
    message has another ETag than `If-Match` says. A delete also changes the ETag, so a repeated delete with the old
    ETag gets 412.
    """
    topic, message_id, query = call.topic, call.message_id, call.query(DeleteQuery)
    service, precondition, seen = pools.serving(topic), Precondition(call.scope["headers"]), ""
    if precondition.is_given:
        record = (await service.lookup.get(topic, message_id)).record
        precondition.check(record)
        seen = record.version
    return _tagged(await service.changing.delete(topic, message_id, release=query.release == "true", seen=seen))


def _tagged(message: Message) -> Response:
    return JsonAnswer(message_out(message), headers=etag_header(message.record))


_ETAG = {ETAG: "Another one after each change of the message"}
_IF_MATCH = HeaderDoc(
    name=IF_MATCH,
    description="The `ETag` of the message as you have seen it. If it has changed since: 412, and nothing is done",
    example=examples.ETAG,
    longest=LONGEST,
)

OPERATIONS = (
    Operation(
        name="look_up",
        summary="Look up a message",
        group="messages",
        method="GET",
        path=_MESSAGE,
        run=look_up,
        need=Need(scope=Scope.LOOK),
        answers={
            200: ResponseDoc(description="The message", model=MessageOut, example=examples.MESSAGE, headers=_ETAG)
        },
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
        name="move",  # as it was called while it changed no more than the due time: ids of operations never change
        summary="Move a message to another time, or change it",
        group="messages",
        method="PATCH",
        path=_MESSAGE,
        run=change,
        need=Need(scope=Scope.SEND),
        takes=ChangeRequest,
        examples=examples.CHANGES,
        headers=(_IF_MATCH,),
        answers={
            200: ResponseDoc(
                description="The message as it is now", model=MessageOut, example=examples.MOVED, headers=_ETAG
            )
        },
        problems=(400, 404, 409, 412, 413, 422, 503),
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
        headers=(_IF_MATCH,),
        answers={
            200: ResponseDoc(
                description="The deleted message", model=MessageOut, example=examples.DELETED, headers=_ETAG
            )
        },
        problems=(404, 409, 412, 422, 503),
    ),
)
