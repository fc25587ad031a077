"""Lists, looks up and cancels operations, which change many messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

from msgspec import UNSET, Meta, UnsetType
from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.structs import Answer
from bridge.http.v1.contract.queries import PageQuery
from bridge.http.v1.contract.results import StateName, instant_out, state_out
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import About, ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.model.bulk import BulkAction, BulkOperation, Failure, OperationState
from bridge.model.durations import format_instant
from bridge.model.errors import NotFound
from bridge.model.filter import Filter
from bridge.service.pools.bulk_actions import BulkActions

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

OPERATION: Final = "/v1/operations"


class FilterOut(Answer):
    """The filter of an operation: the fields that its request gave. An absent field matches every message."""

    topic: str | UnsetType = UNSET
    state: list[StateName] | UnsetType = UNSET
    due_after: ShownInstant | UnsetType = UNSET
    due_before: ShownInstant | UnsetType = UNSET
    id_prefix: str | UnsetType = UNSET
    labels: dict[str, str] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    reason_pattern: str | UnsetType = UNSET


class FailedChangeOut(Answer):
    topic: str
    id: str
    detail: str


class OperationOut(Answer):
    """A bulk operation with its counts. `matched`: messages that matched when the operation began. `done`: messages
    changed so far. A message that no longer matches when its turn comes counts neither as `done` nor as `failed`."""

    id: str
    action: BulkAction
    filter: FilterOut
    state: OperationState
    matched: int
    done: int
    failed: int
    created_at: ShownInstant
    ended_at: ShownInstant | None
    token_id: Annotated[str, Meta(description="whose call began it; `anybody`: no token was asked for")]
    failures: Annotated[list[FailedChangeOut], Meta(description="the first ten")]
    reason: Annotated[str | None, Meta(description="why it failed; null unless `state` is `failed`")]


class OperationsOut(Answer):
    items: list[OperationOut]
    next_cursor: str | None


async def list_operations(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of operations, the newest first. Redis keeps the latest 200.

    With a token, the page has operations that this token has begun, and operations on a single topic that the token may
    use. A token for every topic sees all."""
    query, caller = call.query(PageQuery), call.caller
    page = await BulkActions(pools).operations.page(
        shows=lambda operation: _shows(caller, operation), limit=query.limit, cursor=query.cursor
    )
    return JsonAnswer(OperationsOut(items=[operation_out(item) for item in page.items], next_cursor=page.next_cursor))


async def look_at_operation(pools: Pools, call: ApiCall) -> Response:
    """Returns an operation with its counts.

    404: no operation has this id, or Redis no longer keeps it."""
    return JsonAnswer(operation_out(await _seen(pools, call)))


async def cancel_operation(pools: Pools, call: ApiCall) -> Response:
    """Cancels an operation. Changed messages stay changed, and the operation finishes the portion that it has begun.

    Idempotent: an operation that has ended stays as it is. 404: no operation has this id, or Redis no longer keeps
    it."""
    operation = await _seen(pools, call)
    call.about = About(topic=operation.bulk.filter.one_topic, target=operation.id)
    return JsonAnswer(operation_out(await BulkActions(pools).operations.cancel(operation.id)))


async def _seen(pools: Pools, call: ApiCall) -> BulkOperation:
    operation = await BulkActions(pools).operations.get(call.operation_id)
    if not _shows(call.caller, operation):
        raise NotFound(f"there is no operation {operation.id!r}")
    return operation


def _shows(caller: Caller, operation: BulkOperation) -> bool:
    return caller.sees(operation.bulk.filter.one_topic) or caller.who == operation.who


def operation_out(operation: BulkOperation) -> OperationOut:
    return OperationOut(
        id=operation.id,
        action=operation.bulk.action,
        filter=_filter_out(operation.bulk.filter),
        state=operation.state,
        matched=operation.matched,
        done=operation.progress.done,
        failed=operation.progress.failed,
        created_at=format_instant(operation.created_ms),
        ended_at=instant_out(operation.ended_ms),
        token_id=operation.who,
        failures=failures_out(operation.progress.failures),
        reason=operation.reason or None,
    )


def failures_out(failures: Iterable[Failure]) -> list[FailedChangeOut]:
    return [FailedChangeOut(**failure._asdict()) for failure in failures]


def _filter_out(chosen: Filter) -> FilterOut:
    return FilterOut(
        topic=UNSET if chosen.topic is None else chosen.topic,
        state=[state_out(state) for state in chosen.states] or UNSET,
        due_after=UNSET if chosen.due_after_ms is None else format_instant(chosen.due_after_ms),
        due_before=UNSET if chosen.due_before_ms is None else format_instant(chosen.due_before_ms),
        id_prefix=chosen.id_prefix or UNSET,
        labels=dict(chosen.labels) or UNSET,
        reason=UNSET if chosen.reason is None else chosen.reason,
        reason_pattern=UNSET if chosen.reason_pattern is None else chosen.reason_pattern,
    )


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
