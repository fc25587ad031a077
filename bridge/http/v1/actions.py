"""Lists operators' actions, and records each call of an operation that is such an action (`Operation.is_action`)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.structs import Answer
from bridge.http.v1.contract.queries import ActionsQuery
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import About, ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.model.action import Action, Recorded
from bridge.model.durations import format_instant

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

Run = Callable[["Pools", ApiCall], Awaitable[Response]]


class ActionOut(Answer):
    at: ShownInstant
    what: Annotated[str, Meta(description="the operation, such as `pause`, or a command")]
    who: Annotated[
        str,
        Meta(description="the token's id; `anybody`: no token was asked for; `command line`; `lmstfy`: over its wire"),
    ]
    name: Annotated[str | None, Meta(description="the token's name")]
    topic: str | None
    target: Annotated[str | None, Meta(description="the message, the token or the operation that the action names")]
    count: Annotated[int | None, Meta(description="messages changed; null if the action is not about messages")]
    done: Annotated[bool, Meta(description="false: a server did not answer, and the call may be done in part")]
    request_id: Annotated[str | None, Meta(description="null: a command")]


class ActionsOut(Answer):
    items: list[ActionOut]
    next_cursor: str | None


async def list_actions(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of operators' actions, the newest first, such as a pause of a topic or a replay of dead letters.

    Redis keeps the latest 10,000. With a token, the page has only actions on topics that the token may use. It has
    actions without a topic only if the token may use every topic."""
    query, caller = call.query(ActionsQuery), call.caller
    if query.topic is not None:
        caller.check(query.topic)

    def shows(action: Action) -> bool:
        return query.topic in {None, action.topic} and caller.sees(action.topic)

    page = await pools.default.actions.page(shows=shows, limit=query.limit, cursor=query.cursor)
    return JsonAnswer(ActionsOut(items=[_action_out(item) for item in page.items], next_cursor=page.next_cursor))


def recorded(operation: Operation) -> Run:
    """Returns the operation's handler. If the operation is an operator's action, the returned handler also records each
    call that is no dry run."""
    if not operation.is_action:
        return operation.run

    async def run(pools: Pools, call: ApiCall) -> Response:
        async with pools.default.actions.recording(lambda: _action(operation, call)):
            return await operation.run(pools, call)

    return run


def _action(operation: Operation, call: ApiCall) -> Action | None:
    about = call.about or About()
    if about.is_dry_run:
        return None
    return Action(
        what=operation.what,
        who=call.caller.who,
        name=call.caller.name,
        topic=call.topic if operation.of_topic else about.topic,
        target=call.message_id if operation.of_message else about.target,
        count=call.changed,
    )


def _action_out(item: Recorded) -> ActionOut:
    action = item.action
    return ActionOut(
        at=format_instant(item.at_ms),
        what=action.what,
        who=action.who,
        name=action.name,
        topic=action.topic,
        target=action.target,
        count=action.count,
        done=action.done,
        request_id=action.request_id or None,
    )


OPERATIONS = (
    Operation(
        name="list_actions",
        summary="List what operators did",
        group="operators",
        method="GET",
        path="/v1/actions",
        run=list_actions,
        need=Need(scope=Scope.ADMIN),
        query=ActionsQuery,
        answers={
            200: ResponseDoc(
                description="A page of actions",
                model=ActionsOut,
                example={"items": [examples.ACTION], "next_cursor": None},
            )
        },
    ),
)
