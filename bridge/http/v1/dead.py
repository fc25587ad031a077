"""Lists, replays and drops dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import DropQuery, PageQuery
from bridge.http.v1.contract.requests import ManyRequest
from bridge.http.v1.contract.results import (
    DroppedOut,
    MessageOut,
    PageOut,
    ReplayedOut,
    message_out,
    page_out,
)
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_DEAD = f"{TOPIC}/dead"


async def list_dead(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of the topic's dead letters. Each has its `reason` and its `attempts`.

    When a new message takes the id of a dead letter, the dead letter's id becomes `<id>~dead<number>`. When a message
    takes that id as well, the dead letter's id gets a further suffix.

    404: there is no such topic."""
    topic, query = call.topic, call.query(PageQuery)
    service = pools.serving(topic)
    page = await service.dead.page(topic, limit=query.limit, cursor=query.cursor)
    if not page.items:
        await service.topics.known(topic)
    return JsonAnswer(page_out(page))


async def replay(pools: Pools, call: ApiCall) -> Response:
    """Makes one dead letter ready again. Its attempts are counted from the start.

    404: the topic has no dead letter with this id. 409: the dead letter's body is lost: RabbitMQ no longer has it, and
    Redis did not keep it."""
    topic, message_id = call.topic, call.message_id
    replayed = await pools.serving(topic).dead.replay(topic, message_id)
    call.changed = 1
    return JsonAnswer(message_out(replayed))


async def replay_many(pools: Pools, call: ApiCall) -> Response:
    """Makes up to `max` dead letters ready again, the oldest first. Their attempts are counted from the start.

    404: there is no such topic."""
    topic, wanted = call.topic, await call.body(ManyRequest)
    dead = pools.serving(topic).dead
    await dead.check_topic(topic)
    call.changed = await dead.replay_many(topic, wanted.max)
    return JsonAnswer(ReplayedOut(replayed=call.changed))


async def drop(pools: Pools, call: ApiCall) -> Response:
    """Deletes one dead letter.

    404: the topic has no dead letter with this id."""
    topic, message_id = call.topic, call.message_id
    dropped = await pools.serving(topic).dead.drop(topic, message_id)
    call.changed = 1
    return JsonAnswer(message_out(dropped))


async def drop_many(pools: Pools, call: ApiCall) -> Response:
    """Deletes up to `max` dead letters, the oldest first.

    404: there is no such topic."""
    topic, query = call.topic, call.query(DropQuery)
    dead = pools.serving(topic).dead
    await dead.check_topic(topic)
    call.changed = await dead.drop_many(topic, query.max)
    return JsonAnswer(DroppedOut(dropped=call.changed))


OPERATIONS = (
    Operation(
        name="list_dead",
        summary="List dead letters",
        group="dead letters",
        method="GET",
        path=_DEAD,
        run=list_dead,
        need=Need(scope=Scope.LOOK),
        query=PageQuery,
        answers={
            200: ResponseDoc(
                description="A page of dead letters",
                model=PageOut,
                example={"items": [examples.DEAD], "next_cursor": None},
            )
        },
        problems=(404, 422, 503),
    ),
    Operation(
        name="replay_many",
        summary="Replay dead letters",
        group="dead letters",
        method="POST",
        path=f"{_DEAD}/replay",
        run=replay_many,
        need=Need(scope=Scope.ADMIN),
        takes=ManyRequest,
        is_keyed=True,
        examples={"at most 100": {"max": 100}},
        answers={
            200: ResponseDoc(description="How many messages are due again", model=ReplayedOut, example={"replayed": 12})
        },
        problems=(400, 404, 413, 422, 503),
    ),
    Operation(
        name="replay",
        summary="Replay one dead letter",
        group="dead letters",
        method="POST",
        path=f"{_DEAD}/{{id}}/replay",
        run=replay,
        need=Need(scope=Scope.ADMIN),
        answers={
            200: ResponseDoc(description="The message, which is due now", model=MessageOut, example=examples.MESSAGE)
        },
        problems=(404, 409, 422, 503),
    ),
    Operation(
        name="drop_many",
        summary="Drop dead letters",
        group="dead letters",
        method="DELETE",
        path=_DEAD,
        run=drop_many,
        need=Need(scope=Scope.ADMIN),
        query=DropQuery,
        answers={
            200: ResponseDoc(description="How many messages were deleted", model=DroppedOut, example={"dropped": 12})
        },
        problems=(404, 422, 503),
    ),
    Operation(
        name="drop",
        summary="Drop one dead letter",
        group="dead letters",
        method="DELETE",
        path=f"{_DEAD}/{{id}}",
        run=drop,
        need=Need(scope=Scope.ADMIN),
        answers={200: ResponseDoc(description="The deleted message", model=MessageOut, example=examples.DELETED)},
        problems=(404, 422, 503),
    ),
)
