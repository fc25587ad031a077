"""Deletes, moves and replays all messages that a filter matches."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta
from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.structs import Answer
from bridge.http.v1.bulk.operations import OPERATION, FailedChangeOut, OperationOut, failures_out, operation_out
from bridge.http.v1.contract.filters import FilterFields
from bridge.http.v1.contract.requests import one_of_delay_and_deliver_at
from bridge.http.v1.contract.scalars import Delay, DueInstant, Number
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import About, ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.model.bulk import BulkAction
from bridge.service.bulk.wanted import NO_MOMENT, Moment, bulk_of
from bridge.service.pools.bulk_actions import Applied, BulkActions

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


class _Most(Number):
    least = 1
    most = 1_000_000_000


class BulkRequest(FilterFields):
    """The filter of the messages to change. Give at least one field of the filter; the topic `*` is all topics."""

    dry_run: Annotated[bool, Meta(description="true: only count the messages that match")] = False
    max: Annotated[_Most | None, Meta(description="The most messages to change, the first by due time")] = None

    @property
    def moment(self) -> Moment:
        """The new due moment of the messages; `NO_MOMENT` if the request names none."""
        return NO_MOMENT


class BulkMoveRequest(BulkRequest):
    """The filter of the messages to move, and their new due time. Give exactly one of `delay`, counted from now, and
    `deliver_at`."""

    delay: Delay | None = None
    deliver_at: DueInstant | None = None

    def __post_init__(self) -> None:
        one_of_delay_and_deliver_at(self.delay, self.deliver_at)

    @property
    def moment(self) -> Moment:
        return Moment(delay_ms=self.delay, deliver_at_ms=self.deliver_at)


class BulkOut(Answer):
    """The result of a bulk action. `operation`: the operation that changes the messages. null: the call itself has
    changed them, or was a dry run. With an operation, `done` and `failed` are 0 here, and `operation` has the
    counts."""

    matched: Annotated[int, Meta(description="messages that match, at most `max`")]
    done: int
    failed: Annotated[int, Meta(description="messages that changed meanwhile, or that can't be changed")]
    dry_run: bool
    operation: OperationOut | None
    failures: Annotated[list[FailedChangeOut], Meta(description="the first ten")]


async def delete_many(pools: Pools, call: ApiCall) -> Response:
    """Deletes the messages that match, also leased messages and dead letters. A consumer that has leased a message may
    finish its work, but can no longer ack the message.

    Messages that are sent after the call do not match. For more than 1,000 messages, the bridge begins an operation:
    202, with its address in `Location`.

    404: `topic` names a topic, and there is none of this name. 409: the call would begin an operation, and 20 run
    already.
    """
    return await _apply(pools, call, BulkAction.DELETE, BulkRequest)


async def move_many(pools: Pools, call: ApiCall) -> Response:
    """Moves all waiting messages that match to one new due time.

    A message that is already due at the new time does not match. For more than 1,000 messages, the bridge begins an
    operation: 202, with its address in `Location`.

    404: `topic` names a topic, and there is none of this name. 409: the call would begin an operation, and 20 run
    already.
    """
    return await _apply(pools, call, BulkAction.MOVE, BulkMoveRequest)


async def run_many_now(pools: Pools, call: ApiCall) -> Response:
    """Makes the waiting messages that match due now.

    For more than 1,000 messages, the bridge begins an operation: 202, with its address in `Location`.

    404: `topic` names a topic, and there is none of this name. 409: the call would begin an operation, and 20 run
    already.
    """
    return await _apply(pools, call, BulkAction.RUN_NOW, BulkRequest)


async def replay_matching(pools: Pools, call: ApiCall) -> Response:
    """Makes the dead letters that match ready again. Their attempts are counted from the start.

    For more than 1,000 messages, the bridge begins an operation: 202, with its address in `Location`.

    404: `topic` names a topic, and there is none of this name. 409: the call would begin an operation, and 20 run
    already.
    """
    return await _apply(pools, call, BulkAction.REPLAY, BulkRequest)


async def _apply(pools: Pools, call: ApiCall, action: BulkAction, model: type[BulkRequest]) -> Response:
    wanted, caller = await call.body(model), call.caller
    chosen = wanted.filter()
    topic = chosen.one_topic
    call.about = About(topic=topic, is_dry_run=wanted.dry_run)
    if topic is not None:
        caller.check(topic)
    actions = BulkActions(pools)
    bulk = bulk_of(
        action,
        chosen,
        caller.reach,
        began_ms=await actions.moment_ms(),
        moment=wanted.moment,
        most=wanted.max,
    )
    applied = await actions.apply(bulk, who=caller.who, dry_run=wanted.dry_run)
    call.changed = applied.progress.done
    if applied.operation is None:
        return JsonAnswer(_applied_out(applied, wanted.dry_run))
    call.changed = None  # the operation changes the messages later
    call.about = About(topic=topic, target=applied.operation.id)
    location = f"{OPERATION}/{applied.operation.id}"
    return JsonAnswer(_applied_out(applied, wanted.dry_run), 202, [(b"location", location.encode())])


def _applied_out(applied: Applied, dry_run: bool) -> BulkOut:
    return BulkOut(
        matched=applied.matched,
        done=applied.progress.done,
        failed=applied.progress.failed,
        dry_run=dry_run,
        operation=None if applied.operation is None else operation_out(applied.operation),
        failures=failures_out(applied.progress.failures),
    )


def _operation(
    name: str,
    summary: str,
    action: BulkAction,
    run: Callable[[Pools, ApiCall], Coroutine[Any, Any, Response]],
    *,
    requests: Mapping[str, Any],
    takes: type[BulkRequest] = BulkRequest,
) -> Operation:
    return Operation(
        name=name,
        summary=summary,
        group="bulk",
        method="POST",
        path=f"/v1/messages:{action}",
        run=run,
        need=Need(scope=Scope.ADMIN),
        takes=takes,
        examples=requests,
        is_keyed=True,
        answers={
            200: ResponseDoc(description="What was changed", model=BulkOut, example=examples.BULK),
            202: ResponseDoc(
                description="An operation changes the messages",
                model=BulkOut,
                example=examples.BULK_BEGUN | {"operation": examples.BULK_OPERATION | {"action": action}},
                headers={"Location": "The address of the operation"},
            ),
        },
        problems=(400, 404, 409, 413, 422, 503),
    )


OPERATIONS = (
    _operation(
        "delete_many",
        "Delete all messages that match",
        BulkAction.DELETE,
        delete_many,
        requests={
            "of one customer": {"topic": "orders*", "labels": {"customer": "42"}},
            "how many": {"topic": "orders", "state": ["waiting"], "dry_run": True},
        },
    ),
    _operation(
        "move_many",
        "Move all messages that match",
        BulkAction.MOVE,
        move_many,
        requests={
            "by an hour from now": {"topic": "orders", "due_before": "2026-12-01T10:00:00Z", "delay": "1h"},
            "to a moment": {"id_prefix": "bill-", "deliver_at": "2026-12-24T18:00:00Z", "max": 5_000},
        },
        takes=BulkMoveRequest,
    ),
    _operation(
        "run_many_now",
        "Make all messages that match due now",
        BulkAction.RUN_NOW,
        run_many_now,
        requests={"what is due today": {"topic": "orders", "due_before": "2026-12-02T00:00:00Z"}},
    ),
    _operation(
        "replay_matching",
        "Replay all dead letters that match",
        BulkAction.REPLAY,
        replay_matching,
        requests={"after a repair": {"topic": "orders*", "reason_pattern": "card*"}},
    ),
)
