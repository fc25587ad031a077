"""Makes, lists, pauses and removes schedules, which send a message again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import PageQuery
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import About, ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.http.v1.schedules.definition import ScheduleRequest
from bridge.http.v1.schedules.shown import RemovedScheduleOut, ScheduleOut, SchedulesOut, schedule_out
from bridge.model.errors import NotFound
from bridge.service.schedules.changes import Schedules
from bridge.service.schedules.definition import Schedule, Spec
from bridge.service.schedules.leases import Check

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

SCHEDULES: Final = "/v1/schedules"
SCHEDULE: Final = f"{SCHEDULES}/{{schedule}}"

_SEND: Final = Need(scope=Scope.SEND)


async def put_schedule(pools: Pools, call: ApiCall) -> Response:
    """Makes a schedule, or replaces its definition. The schedule sends its message at every tick, with the id
    `<schedule>@<moment of the tick>`.

    A repeated request changes nothing. A change takes effect at once: the bridge deletes the messages of future ticks
    that it has sent ahead. If only the message changes, it sends these ticks again with the new message. 201: the
    schedule is new. 409: there are 1,000 schedules, which is the limit.

    The token also needs the scope `send` for the topic, and must allow the exchange in `to`."""
    name, wanted = call.schedule, await call.body(ScheduleRequest)
    call.about = About(topic=wanted.topic, target=name)
    spec = wanted.spec(call.caller.max_body(pools.settings.max_body))
    schedules, caller = Schedules(pools), call.caller
    caller.check_target(spec.target)
    schedule, is_new = await schedules.put(name, spec, who=caller.who, check=_sends(caller), maker=caller.maker)
    answer = schedule_out(schedule, await schedules.now_ms())
    return JsonAnswer(answer, 201, [(b"location", f"{SCHEDULES}/{name}".encode())]) if is_new else JsonAnswer(answer)


async def list_schedules(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of schedules by name, without their messages. With a token, the page has only schedules of topics
    that the token may use."""
    query, schedules = call.query(PageQuery), Schedules(pools)
    page = await schedules.page(sees=call.caller.sees, limit=query.limit, cursor=query.cursor)
    now_ms = await schedules.now_ms()
    items = [schedule_out(schedule, now_ms) for schedule in page.items]
    return JsonAnswer(SchedulesOut(items=items, next_cursor=page.next_cursor))


async def look_at_schedule(pools: Pools, call: ApiCall) -> Response:
    """Returns a schedule with its next five ticks.

    404: there is no schedule of this name."""
    schedules = Schedules(pools)
    return await _shown(schedules, await seen(schedules, call))


async def remove_schedule(pools: Pools, call: ApiCall) -> Response:
    """Removes a schedule. Once the call is answered, no tick fires. Messages of past ticks stay.

    404: there is no schedule of this name."""
    removed = await Schedules(pools).remove(call.schedule, managed(call))
    return JsonAnswer(RemovedScheduleOut(name=removed.name, removed=True))


async def pause_schedule(pools: Pools, call: ApiCall) -> Response:
    """Pauses a schedule. Once the call is answered, no tick fires. Ticks during the pause do not count as missed.

    404: there is no schedule of this name."""
    schedules = Schedules(pools)
    return await _shown(schedules, await schedules.pause(call.schedule, managed(call)))


async def resume_schedule(pools: Pools, call: ApiCall) -> Response:
    """Ends a pause. The ticks from now on fire.

    404: there is no schedule of this name."""
    schedules = Schedules(pools)
    return await _shown(schedules, await schedules.resume(call.schedule, managed(call)))


async def seen(schedules: Schedules, call: ApiCall) -> Schedule:
    """Returns the schedule that the call's path names.

    Raises:
        NotFound: there is no such schedule, or the caller may not see its topic.
    """
    schedule = await schedules.get(call.schedule)
    if not call.caller.sees(schedule.spec.topic):
        raise NotFound(f"there is no schedule {schedule.name!r}")
    return schedule


async def _shown(schedules: Schedules, schedule: Schedule) -> Response:
    return JsonAnswer(schedule_out(schedule, await schedules.now_ms()))


def _sends(caller: Caller) -> Check:
    """Returns a check that the caller may manage the schedule's topic, and send to it."""

    def check(spec: Spec) -> None:
        caller.check(spec.topic)
        caller.check(spec.topic, need=_SEND)

    return check


def managed(call: ApiCall, *, sends: bool = False) -> Check:
    """Returns a function that gets the spec of the call's schedule, and checks whether the caller may change the
    schedule.

    The function raises NotFound if the caller may not see the schedule's topic. It also writes the topic and the
    schedule's name to `call.about`. `sends`: the call sends the schedule's message. The function then raises NotAllowed
    if the token may not send to the topic or the message's target.
    """

    def check(spec: Spec) -> None:
        if not call.caller.sees(spec.topic):
            raise NotFound(f"there is no schedule {call.schedule!r}")
        call.about = About(topic=spec.topic, target=call.schedule)
        if sends:
            call.caller.check(spec.topic, need=_SEND)
            call.caller.check_target(spec.target)

    return check


_LOOK: Final = Need(scope=Scope.LOOK)
_ADMIN: Final = Need(scope=Scope.ADMIN)


def _one(description: str, example: Any) -> dict[int, ResponseDoc]:
    return {200: ResponseDoc(description=description, model=ScheduleOut, example=example)}


OPERATIONS = (
    Operation(
        name="list_schedules",
        summary="List schedules",
        group="schedules",
        method="GET",
        path=SCHEDULES,
        run=list_schedules,
        need=_LOOK,
        query=PageQuery,
        answers={
            200: ResponseDoc(
                description="A page of schedules",
                model=SchedulesOut,
                example={"items": [examples.SCHEDULE | {"message": None}], "next_cursor": None},
            )
        },
    ),
    Operation(
        name="put_schedule",
        summary="Create or replace a schedule",
        group="schedules",
        method="PUT",
        path=SCHEDULE,
        run=put_schedule,
        need=_ADMIN,
        takes=ScheduleRequest,
        examples=examples.SCHEDULES,
        answers={
            201: ResponseDoc(
                description="The schedule is new",
                model=ScheduleOut,
                example=examples.SCHEDULE,
                headers={"Location": "The path of the schedule"},
            ),
            **_one("The schedule is as the request asks for", examples.SCHEDULE),
        },
        problems=(400, 409, 413, 422, 503),
    ),
    Operation(
        name="look_at_schedule",
        summary="Look up a schedule",
        group="schedules",
        method="GET",
        path=SCHEDULE,
        run=look_at_schedule,
        need=_LOOK,
        answers=_one("The schedule", examples.SCHEDULE),
        problems=(404, 422, 503),
    ),
    Operation(
        name="remove_schedule",
        summary="Remove a schedule",
        group="schedules",
        method="DELETE",
        path=SCHEDULE,
        run=remove_schedule,
        need=_ADMIN,
        answers={
            200: ResponseDoc(
                description="The schedule is removed",
                model=RemovedScheduleOut,
                example={"name": "nightly-report", "removed": True},
            )
        },
        problems=(404, 422, 503),
    ),
    Operation(
        name="pause_schedule",
        summary="Pause a schedule",
        group="schedules",
        method="POST",
        path=f"{SCHEDULE}/pause",
        run=pause_schedule,
        need=_ADMIN,
        answers=_one("The schedule", examples.SCHEDULE | {"state": "paused", "next": []}),
        problems=(404, 422, 503),
    ),
    Operation(
        name="resume_schedule",
        summary="Resume a paused schedule",
        group="schedules",
        method="POST",
        path=f"{SCHEDULE}/resume",
        run=resume_schedule,
        need=_ADMIN,
        answers=_one("The schedule", examples.SCHEDULE),
        problems=(404, 422, 503),
    ),
)
