"""Serves the wire of changsongl/delay-queue at /topic/:topic/job and /ping, for its Go client.

Every answer on a job's path is HTTP 200 {"success", "message"}, and a pop's also has "data". Other paths under /topic
are Gin's 404. If a token does not allow the call, the answer is HTTP 401, 403 or 429, which the client takes for a
failure.

Oddities of changsongl's server that are kept: an add of a living id is refused, also while the job is leased. An add
with `override` is refused if there is no such job. A job with a TTR of 0 is delivered once. Text behind the JSON of a
body is ignored.

Faults of changsongl's server that are fixed here: a job becomes ready within milliseconds of its due time. A pop is one
atomic step, skips deleted jobs, and ends when its client disconnects. Names may contain "_"; changsongl's server
accepts such names, and then can't pop their jobs. A pop of a job with a TTR of 0 ends the job and frees its id, also if
nobody finishes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.errors import Refused
from bridge.access.token import Scope
from bridge.http import trace_context
from bridge.http.bodies import body_of
from bridge.http.cancel_on_disconnect import unless_gone
from bridge.http.guard import Guard
from bridge.http.problems import KINDS
from bridge.http.wires import go_json
from bridge.http.wires.digested_names import topic_of
from bridge.http.wires.go_json import BOOL, STRING, UINT, GoJsonError, GoType
from bridge.http.wires.jobs import job_messages
from bridge.http.wires.jobs.job_messages import LONGEST_S, Job
from bridge.model.errors import BridgeError, Conflict, NotFound
from bridge.model.message import Message, State, id_of

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_ANY_VERB: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_PATH: Final = re.compile(r"(?P<topic>[^/]*)/job(?:/(?P<id>[^/]*))?", re.DOTALL)
_LONGEST_TOPIC, _LONGEST_ID = 50, 200
_LONGEST_WAIT_S: Final = 3_600
_JOB: Final = {
    "id": GoType("job.ID", STRING.convert),
    "delay": UINT,
    "ttr": UINT,
    "body": GoType("job.Body", STRING.convert),
    "override": BOOL,
}
_CONSUME: Final = Need(scope=Scope.CONSUME)


def router(service: Pools, guard: Guard) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    calls = _Calls(service)
    # By verb, and whether the path has an id.
    handlers = {
        ("POST", False): (Need(scope=Scope.SEND, rated=True), calls.add),
        ("GET", False): (Need(scope=Scope.CONSUME, rated=True), calls.pop),
        ("PUT", True): (_CONSUME, calls.finish),
        ("DELETE", True): (Need(scope=Scope.SEND), calls.delete),
    }

    @routes.api_route("/topic/{rest:path}", methods=_ANY_VERB)
    async def job(request: Request) -> Response:
        path = _PATH.fullmatch(request.path_params["rest"])
        verb, job_id = request.method, path and path["id"]
        if path is not None and job_id == "" and (verb, False) in handlers:
            return _moved(request)
        if path is None or job_id == "" or (verb, job_id is not None) not in handlers:
            return Response("404 page not found", 404, {"Content-Type": "text/plain"})
        need, call = handlers[verb, job_id is not None]
        try:
            caller = await guard.admit(request, need)
            answer = await call(request, caller, path["topic"], job_id or "")
        except Refused as error:
            return _answer(KINDS[type(error)].status, error.headers, success=False, message=str(error))
        except GoJsonError as error:
            return _answer(success=False, message=f"body invalid: {error}")
        except BridgeError as error:
            return _answer(success=False, message=str(error))
        return _answer(success=True, message="ok", **answer)

    @routes.get("/ping")
    async def ping() -> Response:
        return _answer(success=True, message="pong")

    return routes


class _Calls:
    """Carries out the calls of the wire. A call that fails raises GoJsonError or a BridgeError, whose text becomes the
    answer's message."""

    def __init__(self, service: Pools) -> None:
        self._service = service

    async def add(self, request: Request, caller: Caller, topic: str, _: str) -> dict[str, Any]:
        _check("uri", _invalid("topicParam.Topic", topic, _LONGEST_TOPIC))
        given = await go_json.read(request, "action.addParam", _JOB, stream=True)
        _check("body", _invalid("addParam.idParam.ID", given.get("id", ""), _LONGEST_ID))
        job = Job(
            topic=topic,
            id=given["id"],
            delay_s=given.get("delay", 0),
            ttr_s=min(given.get("ttr", 0), LONGEST_S),
            body=given.get("body", ""),
        )
        draft = job_messages.draft_of(job, max_body=caller.max_body(self._service.settings.max_body))
        draft = trace_context.carried(draft, trace_context.given(request.scope["headers"]))
        caller.check(draft.topic)
        if given.get("override"):
            message = await self._find(topic, job.id)
            if message is None or message.record.state.ended:
                raise BridgeError("job is not exists")
            await self._service.serving(draft.topic).replacing.put(draft, caller.maker, waits=True)
        elif (await self._service.serving(draft.topic).sending.send(draft, caller.maker)).replayed:
            raise BridgeError("job is exists")
        return {}

    async def pop(self, request: Request, caller: Caller, topic: str, _: str) -> dict[str, Any]:
        _check("uri", _invalid("topicParam.Topic", topic, _LONGEST_TOPIC))
        wait_s = _timeout_s(request)
        await body_of(request.receive)  # so that the next ASGI event is the disconnect
        name = topic_of(topic)
        caller.check(name)
        pulling = self._service.serving(name).pulling.pull(
            [name], limit=1, wait_ms=wait_s * 1_000, lease_ms=job_messages.lease_ms
        )
        leased = await unless_gone(request.receive, pulling) or []
        if not leased:
            return {"data": None}
        job = job_messages.job_of(leased[0].message)
        if job_messages.is_job(leased[0].message) and not job.ttr_s:
            await self._service.serving(name).settling.ack_receipts(name, [leased[0].receipt])
        data = {"topic": job.topic, "id": job.id, "body": job.body, "ttr": job.ttr_s, "delay": job.delay_s}
        return {"data": dict(sorted(data.items()))}

    async def finish(self, request: Request, caller: Caller, topic: str, job_id: str) -> dict[str, Any]:
        message = await self._job_message(caller, topic, job_id)
        await self._service.serving(message.record.topic).settling.ack_ids(message.record.topic, [message.record.id])
        return {}

    async def delete(self, request: Request, caller: Caller, topic: str, job_id: str) -> dict[str, Any]:
        record = (await self._job_message(caller, topic, job_id)).record
        with suppress(NotFound, Conflict):
            await self._service.serving(record.topic).changing.delete(record.topic, record.id, release=True, waits=True)
        return {}

    async def _job_message(self, caller: Caller, topic: str, job_id: str) -> Message:
        """Returns the message of a job that has not ended, or of a popped job with a TTR of 0. The pop has ended such a
        job, but its client may still finish it.

        Raises:
            BridgeError: there is no such job, or a name is too long.
        """
        _check(
            "uri",
            _invalid("idTopicParam.idParam.ID", job_id, _LONGEST_ID),
            _invalid("idTopicParam.topicParam.Topic", topic, _LONGEST_TOPIC),
        )
        caller.check(topic_of(topic))
        message = await self._find(topic, job_id)
        if message is None or not (_is_popped_once(message) or not message.record.state.ended):
            raise BridgeError("job is not exists")
        return message

    async def _find(self, topic: str, job_id: str) -> Message | None:
        with suppress(NotFound):
            name = topic_of(topic)
            return await self._service.serving(name).lookup.get(name, id_of(job_id))
        return None


def _is_popped_once(message: Message) -> bool:
    return (
        message.record.state is State.ACKED and job_messages.is_job(message) and not job_messages.job_of(message).ttr_s
    )


def _invalid(field: str, value: str, longest: int) -> str | None:
    """Returns the message of Gin's validator for a field; None if the field is valid."""
    tag = "required" if not value else "max" if len(value) > longest else None
    name = field.rpartition(".")[2]
    return f"Key: '{field}' Error:Field validation for '{name}' failed on the '{tag}' tag" if tag else None


def _check(where: str, *messages: str | None) -> None:
    if errors := [message for message in messages if message]:
        raise BridgeError(f"{where} invalid: " + "\n".join(errors))


def _timeout_s(request: Request) -> int:
    query = parse_qs(request.scope["query_string"].decode(errors="replace"), keep_blank_values=True)
    value = query.get("timeout", [""])[0]
    if value and not re.fullmatch("[0-9]{1,19}", value):
        quoted = go_json.marshal(value[:200]).decode()
        raise BridgeError(f"query invalid: strconv.ParseUint: parsing {quoted}: invalid syntax")
    return min(int(value or 0), _LONGEST_WAIT_S)


def _moved(request: Request) -> Response:
    """Returns a redirect to the path without its last slash."""
    query = request.scope["query_string"].decode("latin-1")
    target = quote(request.scope["path"].removesuffix("/")) + (f"?{query}" if query else "")
    return Response(status_code=301 if request.method == "GET" else 307, headers={"Location": target})


def _answer(status: int = 200, headers: Mapping[str, str] | None = None, /, **members: Any) -> Response:
    content = go_json.marshal(dict(sorted(members.items())))
    return Response(content, status, headers, "application/json; charset=utf-8")
