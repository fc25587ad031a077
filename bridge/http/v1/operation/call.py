"""Reads and checks one API request (path, query and body), and writes its JSON answer."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import unquote

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope

from bridge.access.caller import ANYBODY, Caller
from bridge.http import exact_json, off_loop, reading, request_id
from bridge.http.bodies import body_of
from bridge.http.cancel_on_disconnect import unless_gone
from bridge.http.errors import EncodedBody
from bridge.http.problems import ProblemType, answer_of
from bridge.http.v1.contract import queries
from bridge.http.v1.contract.scalars import ID_FORM, PATH_STEP, SCHEDULE_FORM, TOPIC_FORM
from bridge.model.errors import InvalidRequest
from bridge.model.message import TOPIC_PATTERN, is_path_step, valid_id, valid_topic
from bridge.model.schedule_names import SCHEDULE_PATTERN, valid_schedule
from bridge.model.ulids import ULID_PATTERN, valid_ulid

if TYPE_CHECKING:
    from bridge.service.sending.repeats import Try

Model = TypeVar("Model", bound=Struct)
Result = TypeVar("Result")


class About(NamedTuple):
    """The topic and the target of an operator's action, if the request's path does not name them. `target`: the id or
    the name of what the action changes. None: there is none. `is_dry_run`: the action changes nothing, so it is not
    recorded."""

    topic: str | None = None
    target: str | None = None
    is_dry_run: bool = False


class ApiCall:
    """One request. `scope`: the ASGI scope with `path_params`. `caller`: the client that makes the request. `changed`:
    how many messages an operator's action has changed; None: the action is not about messages. `about`: the topic and
    target of the action; None: the path names them. `tried`: the current try of a request with an idempotency key;
    None: there is no key. `is_final`: False if the client should repeat the request, so its answer is not kept.

    Raises:
        InvalidRequest: `topic`, `message_id`, `operation_id`, `schedule`, `query` and `body`, if the value breaks a
            limit.
        TooManyValues: `body` and `read`, if reading the JSON would take too much memory.
        BrokenJSON: `body` and `read`, if the body is not JSON.
        EncodedBody: `body`, `read` and `document`, if the body has a content coding.
        ClientDisconnect: `body`, `read` and `document`, if the client closed the connection.
    """

    __slots__ = ("_read", "_receive", "about", "caller", "changed", "is_final", "scope", "tried")

    def __init__(self, scope: Scope, receive: Receive) -> None:
        self.scope = scope
        self._receive = receive
        self.caller: Caller = ANYBODY
        self.changed: int | None = None
        self.about: About | None = None
        self.tried: Try | None = None
        self.is_final = True
        self._read: bytes | None = None

    @property
    def request_id(self) -> str:
        return request_id.of(self.scope)

    @property
    def topic(self) -> str:
        params = self.scope["path_params"]
        topic = unquote(params["topic"] if "topic" in params else f"{params['namespace']}/{params['name']}")
        if not valid_topic(topic):
            raise InvalidRequest.of("topic", topic, TOPIC_PATTERN, TOPIC_FORM)
        return _no_step("topic", topic)

    @property
    def message_id(self) -> str:
        message_id = unquote(self.scope["path_params"]["id"])
        if not valid_id(message_id):
            raise InvalidRequest.of("id", message_id, ID_FORM.removeprefix("must be "), ID_FORM)
        return message_id

    @property
    def operation_id(self) -> str:
        operation_id = unquote(self.scope["path_params"]["operation_id"])
        if not valid_ulid(operation_id):
            form = "must be 26 characters from 0-9 and A-Z without I, L, O and U"
            raise InvalidRequest.of("operation_id", operation_id, ULID_PATTERN, form)
        return operation_id

    @property
    def schedule(self) -> str:
        name = unquote(self.scope["path_params"]["schedule"])
        if not valid_schedule(name):
            raise InvalidRequest.of("schedule", name, SCHEDULE_PATTERN, SCHEDULE_FORM)
        return _no_step("schedule", name)

    def query(self, kind: type[Model]) -> Model:
        """Returns the query parameters as a struct of the type `kind`."""
        return reading.read_query(kind, queries.read(self.scope["query_string"]))

    async def body(self, kind: type[Model]) -> Model:
        """Returns the body as a struct of the type `kind`."""
        return await self.read(partial(reading.read, kind))

    async def read(self, understand: Callable[[bytes], Result]) -> Result:
        """Returns `understand(body)`, and raises its errors. An empty body counts as `{}`. For a body of more than
        256 KiB, `understand` runs in a thread."""
        return await off_loop.parsed(understand, await self.document() or b"{}")

    def problem(
        self, problem_type: ProblemType, detail: str, *, headers: Mapping[str, str], **members: Any
    ) -> Response:
        """Returns a response with a problem document. `headers`: further headers. `members`: further members."""
        return answer_of(Request(self.scope), problem_type, detail, headers=headers, **members)

    async def document(self) -> bytes:
        """Returns the bytes of the body. A second call returns them again.

        Raises:
            EncodedBody: the body has a content coding.
            ClientDisconnect: the client closed the connection.
        """
        if self._read is None:
            self._read = await self._received()
        return self._read

    async def _received(self) -> bytes:
        for name, value in self.scope["headers"]:
            if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                raise EncodedBody(value.decode("latin-1"))
        return await body_of(self._receive)

    async def while_connected(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Returns the result of the work, which must not be None. Cancels the work when the client disconnects. The
        caller must have read the body before.

        Raises:
            ClientDisconnect: the client disconnected.
        """
        if (result := await unless_gone(self._receive, work)) is None:
            raise ClientDisconnect
        return result


def _no_step(field: str, name: str) -> str:
    if is_path_step(name):
        raise InvalidRequest.of(field, name, PATH_STEP.removeprefix("must be "), PATH_STEP)
    return name


class JsonAnswer(Response):
    """A response whose body is the value as JSON. `headers`: further headers, beside Content-Length and
    Content-Type."""

    def __init__(self, value: Struct, status: int = 200, headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        # Starlette's constructor encodes the same headers from text, which costs 3 us.
        self.body, self.status_code, self.background = exact_json.dumps(value), status, None
        self.raw_headers = [*headers, (b"content-length", b"%d" % len(self.body)), _JSON]


_JSON = (b"content-type", b"application/json")
