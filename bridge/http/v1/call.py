"""One call of the API: what its path, query and body say, checked; and its answer as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from bridge.access.caller import ANYBODY, Caller
from bridge.http import exact_json
from bridge.http.errors import BrokenJSON
from bridge.http.fields import parse
from bridge.http.problems import Kind, answer_of
from bridge.http.server import request_id
from bridge.http.v1 import queries
from bridge.http.v1.scalars import ID_FORM, TOPIC_FORM
from bridge.model.errors import InvalidRequest
from bridge.model.message import TOPIC_PATTERN, valid_id, valid_topic

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


class Call:
    """`scope`: of the request, with its `path_params`. `caller`: who makes it.

    Raises:
        InvalidRequest: by everything that reads but `value`.
        BrokenJSON, ClientDisconnect: by `body` and `value`; the latter as the client went away.
    """

    __slots__ = ("_receive", "caller", "scope")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.caller: Caller = ANYBODY

    @property
    def request_id(self) -> str:
        return request_id.of(self.scope)

    @property
    def topic(self) -> str:
        given = self.scope["path_params"]
        topic = unquote(given["topic"] if "topic" in given else f"{given['namespace']}/{given['name']}")
        if not valid_topic(topic):
            raise InvalidRequest.of("topic", topic, TOPIC_PATTERN, TOPIC_FORM)
        return topic

    @property
    def message_id(self) -> str:
        message_id = unquote(self.scope["path_params"]["id"])
        if not valid_id(message_id):
            raise InvalidRequest.of("id", message_id, ID_FORM.removeprefix("must be "), ID_FORM)
        return message_id

    def query(self, model: type[Model]) -> Model:
        return parse(model, queries.read(self.scope["query_string"]))

    async def body(self, model: type[Model]) -> Model:
        """The body as the model."""
        return parse(model, await self.value())

    async def value(self) -> Any:
        """The body as JSON; an empty one is an object without fields."""
        document = await self._document()
        if not document:
            return {}
        try:
            return exact_json.loads(document)
        except ValueError as error:
            raise BrokenJSON(f"the request is not JSON: {error}") from None

    def problem(self, kind: Kind, detail: str, *, headers: Mapping[str, str], **members: Any) -> Response:
        return answer_of(Request(self.scope), kind, detail, headers=headers, **members)

    async def _document(self) -> bytes:
        # A request that its server has whole, as nearly all are, is one message.
        message = await self._receive()
        parts = [] if message["type"] == "http.disconnect" else [message.get("body", b"")]
        while message["type"] == "http.request" and message.get("more_body"):
            message = await self._receive()
            parts.append(message.get("body", b""))
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        return parts[0] if len(parts) == 1 else b"".join(parts)

    async def while_connected(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The work's result; the work is cancelled when the client goes away. The body must have been read.

        Raises:
            ClientDisconnect: it went away.
        """
        working = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._gone())
        try:
            await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise ClientDisconnect
        finally:
            working.cancel()
            gone.cancel()
            await asyncio.wait((working, gone))

    async def _gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


class JsonAnswer(Response):
    """`document` as it is. `headers`: beyond its length and type."""

    def __init__(self, document: bytes, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        # Starlette's own puts the same together from text: 3 us an answer.
        self.body, self.status_code, self.background = document, status, None
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(document)), _JSON]


_JSON = (b"content-type", b"application/json")


def json_answer(value: Any) -> Response:
    return JsonAnswer(exact_json.dumps(value))
