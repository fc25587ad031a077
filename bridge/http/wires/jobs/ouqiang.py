"""Serves the wire of ouqiang/delay-queue (v0.4) at /push, /pop, /finish, /delete and /get.

Every answer is HTTP 200 with JSON as text/plain. Its `code` is 0, or 1 with the reason as `message`. If a token does
not allow the call, the answer is HTTP 401, 403 or 429, with the same number as code.

Oddities of ouqiang's server that are kept: any verb is accepted. `finish` and `delete` end a job in any state, and
succeed for any id. A pop waits up to 178 s. A job that nobody finishes is redelivered after each TTR, for ever. A push
of a living id replaces that job, also in another topic and while it is leased.

Faults of ouqiang's server that are fixed here: a job becomes ready within milliseconds of its due time, not at the next
second. A pop is one atomic step; ouqiang's server takes two steps, and a crash between them loses the job. A pop skips
deleted jobs, and ends when its client disconnects. A space may follow the comma between topics.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.errors import Refused
from bridge.access.token import Scope
from bridge.http.guard import Guard
from bridge.http.problems import KINDS
from bridge.http.wires import go_json
from bridge.http.wires.go_json import INT64, STRING, GoJsonError
from bridge.http.wires.jobs import job_messages
from bridge.http.wires.jobs.global_jobs import GlobalJobs
from bridge.http.wires.jobs.job_messages import Job
from bridge.model.errors import BridgeError, InvalidRequest

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

Answer = tuple[str, Any]
Handler = Callable[[Request, Caller], Awaitable[Answer]]

_ANY_VERB: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_WAIT_MS: Final = 178_000
_LONGEST_DELAY_S: Final = 1 << 31
_LONGEST_TTR_S: Final = 86_400
_MAX_TOPICS: Final = 100
_DONE: Final = "操作成功"

_JOB: Final = {"topic": STRING, "id": STRING, "delay": INT64, "ttr": INT64, "body": STRING}
_CONSUME: Final = Need(scope=Scope.CONSUME)


def router(service: Pools, guard: Guard) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    calls = _Calls(service)

    def add(path: str, handler: Handler, need: Need) -> None:
        async def endpoint(request: Request) -> Response:
            try:
                caller = await guard.admit(request, need)
                message, data = await handler(request, caller)
            except Refused as error:
                status = KINDS[type(error)].status
                return _answer(status, str(error), status=status, headers=error.headers)
            except GoJsonError:
                return _answer(1, "解析json失败")
            except BridgeError as error:
                return _answer(1, str(error))
            return _answer(0, message, data)

        routes.add_api_route(path, endpoint, methods=_ANY_VERB)

    add("/push", calls.push, Need(scope=Scope.SEND, rated=True))
    add("/pop", calls.pop, Need(scope=Scope.CONSUME, rated=True))
    add("/finish", calls.finish, _CONSUME)
    add("/delete", calls.delete, Need(scope=Scope.SEND))
    add("/get", calls.get, Need(scope=Scope.LOOK))
    return routes


class _Calls:
    """Carries out the calls of the wire. A call that fails raises GoJsonError or a BridgeError, whose text becomes the
    answer's message."""

    def __init__(self, service: Pools) -> None:
        self._service = service
        self._jobs = GlobalJobs(service)

    async def push(self, request: Request, caller: Caller) -> Answer:
        given = await go_json.read(request, "Job", _JOB)
        job = Job(
            topic=_trimmed(given, "topic"),
            id=_trimmed(given, "id"),
            delay_s=given.get("delay", 0),
            ttr_s=given.get("ttr", 0),
            body=_trimmed(given, "body"),
        )
        if not job.id:
            raise BridgeError("job id不能为空")
        if not job.topic:
            raise BridgeError("topic 不能为空")
        if not 0 < job.delay_s <= _LONGEST_DELAY_S:
            raise BridgeError("delay 取值范围1 - (2^31 - 1)")
        if not 0 < job.ttr_s <= _LONGEST_TTR_S:
            raise BridgeError("ttr 取值范围1 - 86400")
        await self._jobs.push(job, request, caller)
        return "添加成功", None

    async def pop(self, request: Request, caller: Caller) -> Answer:
        given = await go_json.read(request, "TopicRequest", {"topic": STRING})
        topics = [topic for part in given.get("topic", "").split(",") if (topic := part.strip(go_json.SPACE))]
        if not topics:
            raise BridgeError("topic不能为空")
        if len(topics) > _MAX_TOPICS:
            raise InvalidRequest.of("topic", len(topics), _MAX_TOPICS, f"must name at most {_MAX_TOPICS} topics")
        job = await self._jobs.pop(topics, request, caller, wait_ms=_WAIT_MS)
        return _DONE, job and {"id": job.id, "body": job.body}

    async def finish(self, request: Request, caller: Caller) -> Answer:
        await self._jobs.finish(await _job_id(request), caller)
        return _DONE, None

    async def delete(self, request: Request, caller: Caller) -> Answer:
        await self._jobs.delete(await _job_id(request), caller)
        return _DONE, None

    async def get(self, request: Request, caller: Caller) -> Answer:
        message = await self._jobs.find(await _job_id(request), caller)
        if message is None or message.record.state.ended:
            return _DONE, None
        job = job_messages.job_of(message)
        ttr_s = job.ttr_s or self._service.settings.lease // 1_000
        due_s = message.record.due_ms // 1_000
        return _DONE, {"topic": job.topic, "id": job.id, "delay": due_s, "ttr": ttr_s, "body": job.body}


async def _job_id(request: Request) -> str:
    given = await go_json.read(request, "IdRequest", {"id": STRING})
    if not (job_id := _trimmed(given, "id")):
        raise BridgeError("job id不能为空")
    return job_id


def _trimmed(given: Mapping[str, Any], name: str) -> str:
    text: str = given.get(name, "")
    return text.strip(go_json.SPACE)


def _answer(
    code: int, message: str, data: Any = None, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    content = go_json.marshal({"code": code, "message": message, "data": data})
    return Response(content, status, headers, "text/plain; charset=utf-8")
