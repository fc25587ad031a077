"""Serves the wire of camellia-delay-queue under /camellia, for its Java SDK and its other HTTP clients.

A failed call is HTTP 200 with a code, and the SDK reads only the code:

* 400: the request is wrong; `msg` says why.
* 404: there is no such living message.
* 500: the outcome is unknown. The client sends again, with the same msgId.

A missing or malformed parameter is HTTP 400. If a token does not allow the call, the answer is HTTP 401, 403 or 429,
with the same number as code. The SDK takes any status but 200 for a failure and shows it.

Oddities of camellia-delay-queue that are kept: the second delete of a message is 404. An ack answers 200 for any msgId,
and so does an ack=false of a message that is not leased. longPollingMsg sorts its keys and leaves nulls out.

Faults of camellia-delay-queue that are fixed here:

* `ack` may be missing and is then true.
* ack=false makes only a leased message ready, and an ack does not change an ended message.
* No message is early. camellia-delay-queue releases up to 100 ms before the due time.
* The status of a message is 2 (ready) from its due time on.
* An ack=false and the end of a lease wake long polls.
* A batch keeps the order of the queue.
* sendMsg refuses an empty msgId, and so does every other call with a msgId.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

import orjson
from fastapi import APIRouter, Request, Response

from bridge.access.decision import Need
from bridge.access.errors import Refused
from bridge.access.token import Scope
from bridge.http.errors import TooLarge
from bridge.http.guard import Guard
from bridge.http.problems import KINDS
from bridge.http.wires.camellia.calls import Answer, Calls
from bridge.http.wires.camellia.monitor import Monitor, Presence, monitor_string, topic_info
from bridge.http.wires.camellia.spring import BadParameter, Params, bad_request
from bridge.http.wires.digested_names import topic_of
from bridge.model.action import Action, ActionName
from bridge.model.errors import BridgeError, Conflict, InvalidRequest, NotFound

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_ANY_VERB: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
_LOOK: Final = Need(scope=Scope.LOOK)
_PULL: Final = Need(scope=Scope.CONSUME, rated=True)
_SWITCH: Final = Need(scope=Scope.ADMIN, every_topic=True)


def router(service: Pools, guard: Guard, *, now_s: Callable[[], float] = monotonic) -> APIRouter:
    """Returns the routes of the wire. Counts and online state cover this process only. `now_s`: returns the time of a
    monotonic clock, in seconds."""
    monitor, presence = Monitor(now_s), Presence(now_s)
    calls = Calls(service, monitor)
    routes = APIRouter(prefix="/camellia", include_in_schema=False)

    def post(
        name: str,
        call: Callable[[Params], Awaitable[Answer]],
        need: Need,
        *members: str,
        write: Callable[[Answer], bytes] = orjson.dumps,
    ) -> None:
        async def endpoint(request: Request) -> Response:
            presence.use()
            try:
                caller = await guard.admit(request, need)
                params = await Params.of(request, caller)
                if (topic := params.text_if_given("topic")) is not None:
                    caller.check(topic_of(topic))
                answer = await call(params)
            except BadParameter:
                return bad_request(request)
            except Refused as error:
                return _refusal(error, dict.fromkeys(members))
            except BridgeError as error:
                answer = {"code": _code(error), "msg": _reason(error), **dict.fromkeys(members)}
            return _json(write(answer))

        routes.add_api_route(f"/delayQueue/{name}", endpoint, methods=["POST"])

    post("sendMsg", calls.send, Need(scope=Scope.SEND, rated=True), "delayMsg")
    post("pullMsg", calls.pull, _PULL, "delayMsgList")
    post("longPollingMsg", calls.long_poll, _PULL, "delayMsgList", write=_as_fastjson)
    post("ackMsg", calls.ack, Need(scope=Scope.CONSUME))
    post("deleteMsg", calls.delete, Need(scope=Scope.SEND))
    post("getMsg", calls.get, _LOOK, "delayMsg")

    @routes.get("/delayQueue/getMonitorData")
    async def get_monitor_data(request: Request) -> Response:
        caller = await guard.admit(request, _LOOK)
        names = await service.default.given_names.all()
        return _data(monitor.data(await service.topic_infos(), caller.sees, names))

    @routes.get("/delayQueue/getTopicInfo")
    async def get_topic_info(request: Request) -> Response:
        caller = await guard.admit(request, _LOOK)
        try:
            topic = (await Params.of(request, caller)).text("topic")
        except BadParameter:
            return bad_request(request)
        name = topic_of(topic)
        caller.check(name)
        info = None
        with suppress(NotFound):
            info = await service.serving(name).topics.info(name)
        return _data(topic_info(topic, info))

    @routes.get("/delayQueue/getTopicInfoList")
    async def get_topic_info_list(request: Request) -> Response:
        caller = await guard.admit(request, _LOOK)
        infos, names = await service.topic_infos(), await service.default.given_names.all()
        return _data([topic_info(names.get(info.topic, info.topic), info) for info in infos if caller.sees(info.topic)])

    @routes.get("/delayQueue/getMonitorString")
    async def get_monitor_string(request: Request) -> Response:
        caller = await guard.admit(request, _LOOK)
        infos = [info for info in await service.topic_infos() if caller.sees(info.topic)]
        names = await service.default.given_names.all()
        sizes = [topic_info(names.get(info.topic, info.topic), info) for info in infos]
        text = monitor_string(monitor.data(infos, caller.sees, names), sizes)
        return Response(orjson.dumps(text), media_type="text/plain;charset=UTF-8")

    _add_health(routes, presence, guard, service)
    return routes


def _add_health(routes: APIRouter, presence: Presence, guard: Guard, service: Pools) -> None:
    @routes.api_route("/health/check", methods=_ANY_VERB)
    async def check() -> Response:
        return _health(ok=True)

    @routes.api_route("/health/status", methods=_ANY_VERB)
    async def status() -> Response:
        return _health(ok=presence.online)

    @routes.api_route("/health/online", methods=_ANY_VERB)
    async def online(request: Request) -> Response:
        caller = await guard.admit(request, _SWITCH)
        presence.online = True
        await service.default.actions.record(Action(what=ActionName.ONLINE, who=caller.who, name=caller.name))
        return _health(ok=True)

    @routes.api_route("/health/offline", methods=_ANY_VERB)
    async def offline(request: Request) -> Response:
        caller = await guard.admit(request, _SWITCH)
        presence.online = False
        await service.default.actions.record(Action(what=ActionName.OFFLINE, who=caller.who, name=caller.name))
        return _health(ok=presence.idle)


def _code(error: BridgeError) -> int:
    match error:
        case InvalidRequest() | TooLarge():
            return 400
        case NotFound() | Conflict():
            return 404
        case _:
            return 500


def _reason(error: BridgeError) -> str | None:
    """Says what is wrong with a request: field, value and limit. In camellia-delay-queue `msg` is null for every
    error."""
    match error:
        case InvalidRequest():
            return "; ".join(
                f"{one.field}: {one.message} (given: {one.value!r}, limit: {one.limit})" for one in error.errors
            )
        case TooLarge():
            return str(error)
        case _:
            return None


def _refusal(error: Refused, members: Answer) -> Response:
    code = KINDS[type(error)].status
    return _json(orjson.dumps({"code": code, "msg": str(error), **members}), code, error.headers)


def _as_fastjson(answer: Answer) -> bytes:
    return orjson.dumps(
        {name: value for name, value in answer.items() if value is not None}, option=orjson.OPT_SORT_KEYS
    )


def _json(content: bytes, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(content, status, headers, "application/json")


def _data(data: Answer | list[Answer]) -> Response:
    return _json(orjson.dumps({"code": 200, "data": data}))


def _health(*, ok: bool) -> Response:
    code = 200 if ok else 500
    return _json(orjson.dumps({"code": code}), code)
