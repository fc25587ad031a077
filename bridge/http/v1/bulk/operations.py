"""Lists, looks up and cancels operations, which change many messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import PageQuery
from bridge.http.v1.contract.results import MAY_BE_ABSENT, StateName
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import About, ApiCall, json_answer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.model.bulk import BulkOperation, Failure
from bridge.model.durations import format_instant
from bridge.model.errors import NotFound
from bridge.model.filter import to_json
from bridge.service.pools.bulk_actions import BulkActions

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

OPERATION: Final = "/v1/operations"


class FilterOut(BaseModel):
    """The fields of the request that narrow the choice. A field that is absent matches every message."""

    topic: Annotated[str, MAY_BE_ABSENT]
    state: Annotated[list[StateName], MAY_BE_ABSENT]
    due_after: Annotated[ShownInstant, MAY_BE_ABSENT]
    due_before: Annotated[ShownInstant, MAY_BE_ABSENT]
    id_prefix: Annotated[str, MAY_BE_ABSENT]
    labels: Annotated[dict[str, str], MAY_BE_ABSENT]
    reason: Annotated[str, MAY_BE_ABSENT]
    reason_pattern: Annotated[str, MAY_BE_ABSENT]


class FailedChangeOut(BaseModel):
    topic: str
    id: str
    detail: str


class OperationOut(BaseModel):
    """`matched`: messages that matched at the begin. Some may have left the filter before their turn: they are counted
    neither as `done` nor as `failed`."""

    id: str
    action: Literal["delete", "move", "run-now", "replay"]
    filter: FilterOut
    state: Literal["running", "done", "cancelled", "failed"]
    matched: int
    done: int
    failed: int
    created_at: ShownInstant
    ended_at: ShownInstant | None
    token_id: Annotated[str, Field(description="whose call began it; `anybody`: no token was asked for")]
    failures: Annotated[list[FailedChangeOut], Field(description="the first ten")]
    reason: Annotated[str | None, Field(description="why it failed; null unless `state` is `failed`")]


class OperationsOut(BaseModel):
    items: list[OperationOut]
    next_cursor: str | None


async def list_operations(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of operations, the newest first. Redis keeps the latest 200.

    With a token: the operations that this token has begun, and operations on a single topic that it may use."""
    query, caller = call.query(PageQuery), call.caller
    page = await BulkActions(pools).operations.page(
        shows=lambda operation: _shows(caller, operation), limit=query.limit, cursor=query.cursor
    )
    return json_answer({"items": [operation_json(item) for item in page.items], "next_cursor": page.next_cursor})


async def look_at_operation(pools: Pools, call: ApiCall) -> Response:
    """Returns an operation with its counts.

    404: there is no operation of this id, or no longer."""
    return json_answer(operation_json(await _seen(pools, call)))


async def cancel_operation(pools: Pools, call: ApiCall) -> Response:
    """Cancels an operation. What it has changed stays changed, and it ends the portion that it has begun.

    Idempotent: an operation that has ended stays as it is. 404: there is no operation of this id, or no longer."""
    operation = await _seen(pools, call)
    call.about = About(topic=operation.bulk.filter.one_topic, target=operation.id)
    return json_answer(operation_json(await BulkActions(pools).operations.cancel(operation.id)))


async def _seen(pools: Pools, call: ApiCall) -> BulkOperation:
    operation = await BulkActions(pools).operations.get(call.operation_id)
    if not _shows(call.caller, operation):
        raise NotFound(f"there is no operation {operation.id!r}")
    return operation


def _shows(caller: Caller, operation: BulkOperation) -> bool:
    return caller.sees(operation.bulk.filter.one_topic) or caller.who == operation.who


def operation_json(operation: BulkOperation) -> dict[str, Any]:
    """Returns the operation as `OperationOut` documents it."""
    shown = to_json(operation.bulk.filter)
    shown |= {name: format_instant(shown[name]) for name in ("due_after", "due_before") if name in shown}
    return {
        "id": operation.id,
        "action": operation.bulk.action,
        "filter": shown,
        "state": operation.state,
        "matched": operation.matched,
        "done": operation.progress.done,
        "failed": operation.progress.failed,
        "created_at": format_instant(operation.created_ms),
        "ended_at": format_instant(operation.ended_ms) if operation.ended_ms else None,
        "token_id": operation.who,
        "failures": failures_json(operation.progress.failures),
        "reason": operation.reason or None,
    }


def failures_json(failures: Iterable[Failure]) -> list[dict[str, str]]:
    return [failure._asdict() for failure in failures]


OPERATIONS = (
    Operation(
        name="list_operations",
        summary="List operations",
        group="bulk",
        method="GET",
        path=OPERATION,
        run=list_operations,
        need=Need(scope=Scope.LOOK),
        query=PageQuery,
        answers={
            200: ResponseDoc(
                description="A page of operations",
                model=OperationsOut,
                example={"items": [examples.BULK_OPERATION], "next_cursor": None},
            )
        },
    ),
    Operation(
        name="look_at_operation",
        summary="Look up an operation",
        group="bulk",
        method="GET",
        path=f"{OPERATION}/{{operation_id}}",
        run=look_at_operation,
        need=Need(scope=Scope.LOOK),
        answers={
            200: ResponseDoc(description="The operation", model=OperationOut, example=examples.BULK_OPERATION),
        },
        problems=(404, 422, 503),
    ),
    Operation(
        name="cancel_operation",
        summary="Cancel an operation",
        group="bulk",
        method="POST",
        path=f"{OPERATION}/{{operation_id}}/cancel",
        run=cancel_operation,
        need=Need(scope=Scope.ADMIN),
        answers={
            200: ResponseDoc(
                description="The operation",
                model=OperationOut,
                example=examples.BULK_OPERATION | {"state": "cancelled", "ended_at": "2026-12-01T09:30:04.000Z"},
            ),
        },
        problems=(404, 422, 503),
    ),
)
