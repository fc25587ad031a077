"""Lists the next ticks of a schedule, and sends ticks that a caller asks for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.results import MessageOut, message_out
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.http.v1.schedules.changes import SCHEDULE, managed, seen
from bridge.http.v1.schedules.definition import BackfillRequest, NextQuery
from bridge.http.v1.schedules.shown import BackfilledOut, NextOut, ticks_out
from bridge.model.durations import format_instant
from bridge.service.schedules.backfill import Backfills
from bridge.service.schedules.changes import Schedules
from bridge.service.schedules.timing import following

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_LOOK: Final = Need(scope=Scope.LOOK)
_ADMIN: Final = Need(scope=Scope.ADMIN)


async def next_ticks(pools: Pools, call: ApiCall) -> Response:
    """Returns the next ticks of a schedule, also of a paused one.

    404: there is no schedule of this name."""
    query, schedules = call.query(NextQuery), Schedules(pools)
    schedule = await seen(schedules, call)
    ticks = following(schedule.spec.timing, schedule.name, await schedules.now_ms(), query.count)
    return JsonAnswer(NextOut(items=ticks_out(ticks)))


async def trigger_schedule(pools: Pools, call: ApiCall) -> Response:
    """Sends the schedule's message now, also if the schedule is paused. The schedule's ticks do not change.

    404: there is no schedule of this name. The token also needs the scope `send` for the topic, and must allow the
    message's target."""
    sent = await Schedules(pools).trigger(call.schedule, managed(call, sends=True))
    return JsonAnswer(message_out(sent.message))


async def backfill_schedule(pools: Pools, call: ApiCall) -> Response:
    """Sends the messages of a past period's ticks, all due now. A tick that was sent before is not sent again.

    The bridge knows that a tick was sent if its message still has a record, or if an earlier backfill covered its
    moment. A call sends at most 1,000 ticks. 404: there is no schedule of this name. 409: backfills have covered 100
    separate periods, which is the limit. The token also needs the scope `send` for the topic, and must allow the
    message's target."""
    wanted = await call.body(BackfillRequest)
    done = await Backfills(pools).backfill(call.schedule, wanted.from_, wanted.to, managed(call, sends=True))
    call.changed = done.sent
    return JsonAnswer(BackfilledOut(ticks=done.ticks, sent=done.sent, to=format_instant(done.to_ms)))


OPERATIONS = (
    Operation(
        name="trigger_schedule",
        summary="Send a schedule's message now",
        group="schedules",
        method="POST",
        path=f"{SCHEDULE}/trigger",
        run=trigger_schedule,
        need=_ADMIN,
        answers={200: ResponseDoc(description="The message", model=MessageOut, example=examples.TICK)},
        problems=(404, 422, 503),
    ),
    Operation(
        name="backfill_schedule",
        summary="Send the ticks of a past period",
        group="schedules",
        method="POST",
        path=f"{SCHEDULE}/backfill",
        run=backfill_schedule,
        need=_ADMIN,
        takes=BackfillRequest,
        examples=examples.BACKFILLS,
        answers={
            200: ResponseDoc(
                description="What was sent",
                model=BackfilledOut,
                example={"ticks": 30, "sent": 28, "to": "2026-11-30T23:59:59.000Z"},
            )
        },
        problems=(400, 404, 409, 413, 422, 503),
    ),
    Operation(
        name="next_ticks",
        summary="List the next ticks of a schedule",
        group="schedules",
        method="GET",
        path=f"{SCHEDULE}/next",
        run=next_ticks,
        need=_LOOK,
        query=NextQuery,
        answers={
            200: ResponseDoc(description="The ticks", model=NextOut, example={"items": examples.SCHEDULE["next"]})
        },
        problems=(404, 422, 503),
    ),
)
