"""Serves the commands of Youzan's delay queue (its published design) by POST to / or /youzan.

{"command": "add", "topic", "id", "delay", "TTR", "body"}, {"command": "pop", "topic"}, {"command": "finish", "id"} and
{"command": "delete", "id"} are Youzan's. The bridge adds {"command": "state", "id"}, which answers with delay, ready,
reserved or deleted as value. Every answer is HTTP 200 {"success", "error", "id", "value"}; members without a value are
null. If a token does not allow the command, the answer is HTTP 401, 403 or 429, with the reason as error.

Durations are whole seconds. A body that is not a string is stored and popped as its JSON text. An add of a living id
replaces that job, also in another topic. A job that nobody finishes is redelivered after each TTR, for ever. `finish`
and `delete` succeed for any id. A pop answers at once, or waits for up to `timeout` seconds.
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
from bridge.http.wires.go_json import ANY, INT64, STRING, GoJsonError
from bridge.http.wires.jobs.global_jobs import GlobalJobs
from bridge.http.wires.jobs.job_messages import LONGEST_S, Job
from bridge.model.errors import BridgeError, InvalidRequest, NotFound
from bridge.model.message import State

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

Given = Mapping[str, Any]
Answer = tuple[str | None, str | None]
"""The members `id` and `value` of an answer; None becomes null."""

_ANY_TOKEN: Final = Need(scope=Scope.LOOK)
_LONGEST_WAIT_S: Final = 3_600
_MEMBERS: Final = {
    **dict.fromkeys(("command", "topic", "id"), STRING),
    **dict.fromkeys(("delay", "ttr", "timeout"), INT64),
    "body": ANY,
}
_STATES: Final = {State.WAITING: "delay", State.READY: "ready", State.LEASED: "reserved"}


def router(service: Pools, guard: Guard) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    commands = _Commands(service)

    async def endpoint(request: Request) -> Response:
        try:
            await guard.admit(request, _ANY_TOKEN)  # the command in the body decides what else the token must allow
            given = await go_json.read(request, "command", _MEMBERS)
            need, run = commands.named(given)
            message_id, value = await run(given, request, await guard.admit(request, need))
        except Refused as error:
            return _answer(KINDS[type(error)].status, error=str(error), headers=error.headers)
        except (GoJsonError, BridgeError) as error:
            return _answer(200, error=str(error))
        return _answer(200, message_id=message_id, value=value)

    for path in ("/", "/youzan"):
        routes.add_api_route(path, endpoint, methods=["POST"])
    return routes


class _Commands:
    """Carries out the commands. A command that fails raises a BridgeError."""

    def __init__(self, service: Pools) -> None:
        self._service = service
        self._jobs = GlobalJobs(service)
        self._named: Mapping[str, tuple[Need, Callable[[Given, Request, Caller], Awaitable[Answer]]]] = {
            "add": (Need(scope=Scope.SEND, rated=True), self.add),
            "pop": (Need(scope=Scope.CONSUME, rated=True), self.pop),
            "finish": (Need(scope=Scope.CONSUME), self.finish),
            "delete": (Need(scope=Scope.SEND), self.delete),
            "state": (Need(scope=Scope.LOOK), self.state),
        }

    def named(self, given: Given) -> tuple[Need, Callable[[Given, Request, Caller], Awaitable[Answer]]]:
        command = given.get("command", "")
        if command not in self._named:
            raise InvalidRequest.of(
                "command", command[:200], list(self._named), f"must be one of {', '.join(self._named)}"
            )
        return self._named[command]

    async def add(self, given: Given, request: Request, caller: Caller) -> Answer:
        job = Job(
            topic=_text(given, "topic"),
            id=_text(given, "id"),
            delay_s=_seconds(given, "delay", 0, least=0, most=LONGEST_S),
            ttr_s=_seconds(given, "ttr", self._service.settings.lease // 1_000 or 1, least=1, most=LONGEST_S),
            body=given.get("body", ""),
        )
        await self._jobs.push(job, request, caller)
        return job.id, None

    async def pop(self, given: Given, request: Request, caller: Caller) -> Answer:
        wait_s = _seconds(given, "timeout", 0, least=0, most=_LONGEST_WAIT_S)
        job = await self._jobs.pop([_text(given, "topic")], request, caller, wait_ms=wait_s * 1_000)
        return (job.id, job.body) if job else (None, None)

    async def finish(self, given: Given, request: Request, caller: Caller) -> Answer:
        job_id = _text(given, "id")
        await self._jobs.finish(job_id, caller)
        return job_id, None

    async def delete(self, given: Given, request: Request, caller: Caller) -> Answer:
        job_id = _text(given, "id")
        await self._jobs.delete(job_id, caller)
        return job_id, None

    async def state(self, given: Given, request: Request, caller: Caller) -> Answer:
        """Returns the job's state. Every job that has ended is `deleted`, also a finished one."""
        job_id = _text(given, "id")
        message = await self._jobs.find(job_id, caller)
        if message is None:
            raise NotFound(f"there is no job {job_id[:200]!r}")
        return job_id, _STATES.get(message.record.state, "deleted")


def _text(given: Given, name: str) -> str:
    text: str = given.get(name, "")
    if not text:
        raise InvalidRequest.of(name, text, "a string", "is required and must not be empty")
    return text


def _seconds(given: Given, name: str, default: int, *, least: int, most: int) -> int:
    value: int = given.get(name, default)
    if not least <= value <= most:
        raise InvalidRequest.of(name, value, most, f"must be {least} to {most} seconds")
    return value


def _answer(
    status: int,
    *,
    error: str | None = None,
    message_id: str | None = None,
    value: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    content = {"success": error is None, "error": error, "id": message_id, "value": value}
    return Response(go_json.marshal(content), status, headers, "application/json")
