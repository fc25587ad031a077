"""Serves the HTTP protocol of a delay-task service at /delay/task/add and /delay/task/pull.

Only a description of that service was found, and no source. The bridge decides what the description leaves open. Errors
are HTTP 200 with a code in `dm_error`. If a token does not allow the call, the answer is HTTP 401, 403 or 429, with the
same number as code. The body is a JSON object or a form; the bridge ignores the content type.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Request, Response
from msgspec import Raw, Struct
from starlette.background import BackgroundTask

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.errors import Refused
from bridge.access.token import Scope
from bridge.http import exact_json, off_loop
from bridge.http.bodies import body_of
from bridge.http.errors import BrokenJSON, TooLarge, TooManyValues
from bridge.http.guard import Guard
from bridge.http.json_bounds import weigh
from bridge.http.problems import KINDS
from bridge.http.wires.tasks.calls import Answer, Calls, NotDue, Params
from bridge.model.errors import BridgeError, InvalidRequest, NotFound

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_MAX_FIELDS: Final = 100
_SUCCESS: Final = "操作成功"
_BAD_PARAMETER: Final = "参数错误"
_NO_TASK: Final = "任务不存在"
_NOT_DUE: Final = "任务未到期"
_FORBIDDEN: Final = "没有权限"
_UNAVAILABLE: Final = "服务暂不可用"


class _Task(Struct, frozen=True, gc=False):
    topic: Any = None
    timing_moment: Any = None
    task_id: Any = None
    content: Raw = Raw(b"null")


_TASK: Final = msgspec.json.Decoder(_Task)
Run = Callable[[Params, Request, Caller], Awaitable[tuple[Answer, BackgroundTask | None]]]


def router(service: Pools, guard: Guard) -> APIRouter:
    calls = Calls(service)
    routes = APIRouter(prefix="/delay/task", include_in_schema=False)

    def post(name: str, run: Run, need: Need) -> None:
        async def endpoint(request: Request) -> Response:
            try:
                caller = await guard.admit(request, need)
                params = await off_loop.parsed(_params, await body_of(request.receive))
                if isinstance(topic := params.get("topic"), str):
                    caller.check(topic)
                answer, then = await run(params, request, caller)
            except Refused as error:
                code = KINDS[type(error)].status
                return _answer({"dm_error": code, "error_msg": f"{_FORBIDDEN}: {error}"}, code, error.headers)
            except BridgeError as error:
                code, text = _code_and_text(error)
                return _answer({"dm_error": code, "error_msg": f"{text}: {error}"})
            return _answer({"dm_error": 0, "error_msg": _SUCCESS, **answer}, then=then)

        routes.add_api_route(f"/{name}", endpoint, methods=["POST"])

    post("add", calls.add, Need(scope=Scope.SEND, rated=True))
    post("pull", calls.pull, Need(scope=Scope.CONSUME, rated=True))
    return routes


def _params(body: bytes) -> Params:
    if body.lstrip()[:1] != b"{":
        try:
            return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=_MAX_FIELDS))
        except ValueError:
            raise InvalidRequest.of("request", None, "JSON or a form", "must be a JSON object or a form") from None
    try:
        task = _TASK.decode(exact_json.check_text(weigh(body)))
        content = msgspec.json.decode(task.content) if bytes(task.content)[:1] in b'"n' else task.content
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest.of("request", None, "JSON or a form", f"must be a JSON object: {error}") from None
    return {"topic": task.topic, "timing_moment": task.timing_moment, "task_id": task.task_id, "content": content}


def _code_and_text(error: BridgeError) -> tuple[int, str]:
    match error:
        case InvalidRequest() | TooLarge() | TooManyValues() | BrokenJSON():
            return 400, _BAD_PARAMETER
        case NotDue():
            return 425, _NOT_DUE
        case NotFound():
            return 404, _NO_TASK
        case _:
            return 503, _UNAVAILABLE


def _answer(
    answer: dict[str, Any],
    status: int = 200,
    headers: dict[str, str] | None = None,
    *,
    then: BackgroundTask | None = None,
) -> Response:
    return Response(exact_json.dumps(answer), status, headers, "application/json", then)
