"""Dead letters: list, replay, drop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import Call, JsonAnswer, json_answer
from bridge.http.v1.operation import TOPIC, Answer, Operation
from bridge.http.v1.queries import DropQuery, PageQuery
from bridge.http.v1.requests import ManyRequest
from bridge.http.v1.results import (
    DroppedOut,
    MessageOut,
    PageOut,
    ReplayedOut,
    message_json,
    page_json,
)

if TYPE_CHECKING:
    from bridge.service.pools import Pools

_DEAD = f"{TOPIC}/dead"


async def list_dead(pools: Pools, call: Call) -> Response:
    """A page of the topic's dead letters, each with its reason and its attempts."""
    topic, query = call.topic, call.query(PageQuery)
    return JsonAnswer(page_json(await pools.serving(topic).dead.page(topic, limit=query.limit, cursor=query.cursor)))


async def replay(pools: Pools, call: Call) -> Response:
    """Sends one dead letter again; its attempts start anew."""
    topic, message_id = call.topic, call.message_id
    return JsonAnswer(message_json(await pools.serving(topic).dead.replay(topic, message_id)))


async def replay_many(pools: Pools, call: Call) -> Response:
    """Sends up to `max` dead letters again; their attempts start anew."""
    topic, wanted = call.topic, await call.body(ManyRequest)
    return json_answer({"replayed": await pools.serving(topic).dead.replay_many(topic, wanted.max)})


async def drop(pools: Pools, call: Call) -> Response:
    """Forgets one dead letter."""
    topic, message_id = call.topic, call.message_id
    return JsonAnswer(message_json(await pools.serving(topic).dead.drop(topic, message_id)))


async def drop_many(pools: Pools, call: Call) -> Response:
    """Forgets up to `max` dead letters."""
    topic, query = call.topic, call.query(DropQuery)
    return json_answer({"dropped": await pools.serving(topic).dead.drop_many(topic, query.max)})


OPERATIONS = (
    Operation(
        name="list_dead",
        group="dead letters",
        method="GET",
        path=_DEAD,
        run=list_dead,
        need=Need(scope=Scope.LOOK),
        query=PageQuery,
        answers={200: Answer(says="A page", model=PageOut, example={"items": [examples.DEAD], "next_cursor": None})},
    ),
    Operation(
        name="replay_many",
        group="dead letters",
        method="POST",
        path=f"{_DEAD}/replay",
        run=replay_many,
        need=Need(scope=Scope.ADMIN),
        takes=ManyRequest,
        examples={"up to a hundred": {"max": 100}},
        answers={200: Answer(says="How many", model=ReplayedOut, example={"replayed": 12})},
        problems=(400, 404, 413, 422, 503),
    ),
    Operation(
        name="replay",
        group="dead letters",
        method="POST",
        path=f"{_DEAD}/{{id}}/replay",
        run=replay,
        need=Need(scope=Scope.ADMIN),
        answers={200: Answer(says="The message as it is now", model=MessageOut, example=examples.MESSAGE)},
        problems=(404, 409, 422, 503),
    ),
    Operation(
        name="drop_many",
        group="dead letters",
        method="DELETE",
        path=_DEAD,
        run=drop_many,
        need=Need(scope=Scope.ADMIN),
        query=DropQuery,
        answers={200: Answer(says="How many", model=DroppedOut, example={"dropped": 12})},
        problems=(404, 422, 503),
    ),
    Operation(
        name="drop",
        group="dead letters",
        method="DELETE",
        path=f"{_DEAD}/{{id}}",
        run=drop,
        need=Need(scope=Scope.ADMIN),
        answers={200: Answer(says="The dropped message", model=MessageOut, example=examples.DELETED)},
        problems=(404, 409, 422, 503),
    ),
)
