"""The wire of changsongl/delay-queue, at /topic/:topic/job and /ping: its Go client finds what it knows.

Every answer of a job's path is HTTP 200 {"success", "message"}, with "data" from a pop; other paths under /topic are
Gin's 404. What a token does not allow is HTTP 401, 403 or 429, which the client takes for a failure.

Kept though odd: an add of a known id is refused, also while somebody has the job, and one with `override` is refused
where there is none; a job whose TTR is 0 is handed out once; what is behind the JSON of a body is not looked at.

Mended: due within milliseconds; a pop hands a job out in one step, goes past deleted jobs, and ends with its client's
connection; names may have a "_" in them, which the original accepts and then can't pop; a job with a TTR of 0 that was
popped is gone, and its id free, whether or not it is finished.
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
from bridge.http.guard import Guard
from bridge.http.problems import KINDS
from bridge.http.wires.cancel_on_disconnect import unless_gone
from bridge.http.wires.jobs import go_json, job_messages
from bridge.http.wires.jobs.go_json import BOOL, STRING, UINT, Kind, NotRead
from bridge.http.wires.jobs.job_messages import LONGEST_S, Job
from bridge.model.errors import BridgeError, Conflict, NotFound
from bridge.model.message import Message, State

if TYPE_CHECKING:
    from bridge.service.pools import Pools

_ANY_VERB: Final = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
_PATH: Final = re.compile(r"(?P<topic>[^/]*)/job(?:/(?P<id>[^/]*))?", re.DOTALL)
_LONGEST_TOPIC, _LONGEST_ID = 50, 200
_LONGEST_WAIT_S: Final = 3_600
_JOB: Final = {
    "id": Kind("job.ID", STRING.take),
    "delay": UINT,
    "ttr": UINT,
    "body": Kind("job.Body", STRING.take),
    "override": BOOL,
}
_CONSUME: Final = Need(scope=Scope.CONSUME)


class _Failed(Exception):
    """Its text is the answer's message."""


def router(service: Pools, guard: Guard) -> APIRouter:
    routes = APIRouter(include_in_schema=False)
    calls = _Calls(service)
    # By verb, and whether the path has an id.
    known = {
        ("POST", False): (Need(scope=Scope.SEND, rated=True), calls.add),
        ("GET", False): (Need(scope=Scope.CONSUME, rated=True), calls.pop),
        ("PUT", True): (_CONSUME, calls.finish),
        ("DELETE", True): (Need(scope=Scope.SEND), calls.delete),
    }

    @routes.api_route("/topic/{rest:path}", methods=_ANY_VERB)
    async def job(request: Request) -> Response:
        path = _PATH.fullmatch(request.path_params["rest"])
        verb, job_id = request.method, path and path["id"]
        if path is not None and job_id == "" and (verb, False) in known:
            return _moved(request)
        if path is None or (verb, job_id is not None) not in known:
            return Response("404 page not found", 404, {"Content-Type": "text/plain"})
        need, call = known[verb, job_id is not None]
        try:
            caller = await guard.admit(request, need)
            answer = await call(request, caller, path["topic"], job_id or "")
        except Refused as error:
            return _answer(KINDS[type(error)].status, error.headers, success=False, message=str(error))
        except NotRead as error:
            return _answer(success=False, message=f"body invalid: {error}")
        except (_Failed, BridgeError) as error:
            return _answer(success=False, message=str(error))
        return _answer(success=True, message="ok", **answer)

    @routes.get("/ping")
    async def ping() -> Response:
        return _answer(success=True, message="pong")

    return routes


class _Calls:
    """Each raises _Failed, NotRead or a BridgeError where it has no answer."""

    def __init__(self, service: Pools) -> None:
        self._service = service

    async def add(self, request: Request, caller: Caller, topic: str, _: str) -> dict[str, Any]:
        _check("uri", _broken("topicParam.Topic", topic, _LONGEST_TOPIC))
        given = go_json.read(await request.body(), "addParam", _JOB, stream=True)
        _check("body", _broken("addParam.idParam.ID", given.get("id", ""), _LONGEST_ID))
        job = Job(
            topic=topic,
            id=given["id"],
            delay_s=given.get("delay", 0),
            ttr_s=min(given.get("ttr", 0), LONGEST_S),
            body=given.get("body", ""),
        )
        draft = job_messages.draft_of(job, max_body=caller.max_body(self._service.settings.max_body))
        caller.check(draft.topic)
        if given.get("override"):
            message = await self._find(topic, job.id)
            if message is None or message.record.state.ended:
                raise _Failed("job is not exists")
            await self._service.serving(draft.topic).replacing.put(draft)
        elif (await self._service.serving(draft.topic).sending.send(draft)).replayed:
            raise _Failed("job is exists")
        return {}

    async def pop(self, request: Request, caller: Caller, topic: str, _: str) -> dict[str, Any]:
        _check("uri", _broken("topicParam.Topic", topic, _LONGEST_TOPIC))
        wait_s = _timeout_s(request)
        await request.body()  # from here on only the client's leaving is waited for
        name = job_messages.topic_of(topic)
        caller.check(name)
        pulling = self._service.serving(name).pulling.pull(
            [name], limit=1, wait_ms=wait_s * 1_000, lease_ms=job_messages.lease_ms
        )
        leased = await unless_gone(request, pulling) or []
        if not leased:
            return {"data": None}
        job = job_messages.job_of(leased[0].message)
        if job_messages.is_job(leased[0].message) and not job.ttr_s:
            await self._service.serving(name).settling.ack_receipts(name, [leased[0].receipt])
        data = {"topic": job.topic, "id": job.id, "body": job.body, "ttr": job.ttr_s, "delay": job.delay_s}
        return {"data": dict(sorted(data.items()))}

    async def finish(self, request: Request, caller: Caller, topic: str, job_id: str) -> dict[str, Any]:
        message = await self._known(caller, topic, job_id)
        await self._service.serving(message.record.topic).settling.ack_ids(message.record.topic, [message.record.id])
        return {}

    async def delete(self, request: Request, caller: Caller, topic: str, job_id: str) -> dict[str, Any]:
        record = (await self._known(caller, topic, job_id)).record
        with suppress(NotFound, Conflict):
            await self._service.serving(record.topic).changing.delete(record.topic, record.id, release=True)
        return {}

    async def _known(self, caller: Caller, topic: str, job_id: str) -> Message:
        """The job, if it lives; or if it was popped with a TTR of 0, as then it may be finished still."""
        _check(
            "uri",
            _broken("idTopicParam.idParam.ID", job_id, _LONGEST_ID),
            _broken("idTopicParam.topicParam.Topic", topic, _LONGEST_TOPIC),
        )
        caller.check(job_messages.topic_of(topic))
        message = await self._find(topic, job_id)
        if message is None or not (_is_popped_once(message) or not message.record.state.ended):
            raise _Failed("job is not exists")
        return message

    async def _find(self, topic: str, job_id: str) -> Message | None:
        with suppress(NotFound):
            name = job_messages.topic_of(topic)
            return await self._service.serving(name).lookup.get(name, job_messages.id_of(job_id))
        return None


def _is_popped_once(message: Message) -> bool:
    return (
        message.record.state is State.ACKED and job_messages.is_job(message) and not job_messages.job_of(message).ttr_s
    )


def _broken(field: str, value: str, longest: int) -> str | None:
    """What Gin's validator says of a field."""
    tag = "required" if not value else "max" if len(value) > longest else None
    name = field.rpartition(".")[2]
    return f"Key: '{field}' Error:Field validation for '{name}' failed on the '{tag}' tag" if tag else None


def _check(where: str, *says: str | None) -> None:
    if broken := [one for one in says if one]:
        raise _Failed(f"{where} invalid: " + "\n".join(broken))


def _timeout_s(request: Request) -> int:
    query = parse_qs(request.scope["query_string"].decode(errors="replace"), keep_blank_values=True)
    value = query.get("timeout", [""])[0]
    if value and not re.fullmatch("[0-9]{1,19}", value):
        quoted = go_json.dumps(value[:200]).decode()
        raise _Failed(f"query invalid: strconv.ParseUint: parsing {quoted}: invalid syntax")
    return min(int(value or 0), _LONGEST_WAIT_S)


def _moved(request: Request) -> Response:
    """As Gin does with a slash too many."""
    query = request.scope["query_string"].decode("latin-1")
    target = quote(request.scope["path"].removesuffix("/")) + (f"?{query}" if query else "")
    return Response(status_code=301 if request.method == "GET" else 307, headers={"Location": target})


def _answer(status: int = 200, headers: Mapping[str, str] | None = None, /, **members: Any) -> Response:
    content = go_json.dumps(dict(sorted(members.items())))
    return Response(content, status, headers, "application/json; charset=utf-8")
