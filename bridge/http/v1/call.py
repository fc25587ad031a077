"""One call of the API: what its path, query and body say, checked; and its answer as JSON."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar
from urllib.parse import unquote

from pydantic import BaseModel
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from bridge.access.caller import ANYBODY, Caller
from bridge.errors import InvalidRequest
from bridge.http import exact_json, request_id
from bridge.http.errors import BrokenJSON
from bridge.http.fields import parse
from bridge.http.problems import Kind, answer_of
from bridge.http.v1 import queries
from bridge.http.v1.scalars import ID_FORM, TOPIC_FORM
from bridge.message import TOPIC_PATTERN, valid_id, valid_topic

Model = TypeVar("Model", bound=BaseModel)
Result = TypeVar("Result")


class Call:
    """`caller`: who makes it.

    Raises:
        InvalidRequest: by everything that reads; `BrokenJSON` by `body`.
    """

    __slots__ = ("_request", "caller")

    def __init__(self, request: Request) -> None:
        self._request = request
        self.caller: Caller = ANYBODY

    @property
    def request_id(self) -> str:
        return request_id.of(self._request.scope)

    @property
    def topic(self) -> str:
        given = self._request.path_params
        topic = unquote(given["topic"] if "topic" in given else f"{given['namespace']}/{given['name']}")
        if not valid_topic(topic):
            raise InvalidRequest.of("topic", topic, TOPIC_PATTERN, TOPIC_FORM)
        return topic

    @property
    def message_id(self) -> str:
        message_id = unquote(self._request.path_params["id"])
        if not valid_id(message_id):
            raise InvalidRequest.of("id", message_id, ID_FORM.removeprefix("must be "), ID_FORM)
        return message_id

    def query(self, model: type[Model]) -> Model:
        return parse(model, queries.read(self._request.scope["query_string"]))

    async def body(self, model: type[Model]) -> Model:
        """The body as the model; an empty one is an object without fields."""
        document = await self._request.body()
        if not document:
            return parse(model, {})
        try:
            return parse(model, exact_json.loads(document))
        except ValueError as error:
            raise BrokenJSON(f"the request is not JSON: {error}") from None

    def problem(self, kind: Kind, detail: str, *, headers: Mapping[str, str], **members: Any) -> Response:
        return answer_of(self._request, kind, detail, headers=headers, **members)

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
        while (await self._request.receive())["type"] != "http.disconnect":
            pass


def json_answer(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(exact_json.dumps(value), status, headers, "application/json")
