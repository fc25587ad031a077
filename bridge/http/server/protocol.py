"""What a connection may cost: how large a head may be, how slow a client, how many connections.

The parser bounds no head, and uvicorn waits for ever for the rest of one. Here what is too large, too slow or not HTTP
is refused behind the answers that are still owed, and the connection is closed. Requests pay next to nothing for it:
nothing is timed, but once a second every connection is looked at, and one that shows the same as at the time before is
where its client has not gone on. A request that is being answered, such as a long poll, is not waited for.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from bridge import metrics
from bridge.http import problems
from bridge.http.problems import Kind
from bridge.http.server import request_id
from bridge.http.server.sweep import Limits, Phase, Sweep

NOT_HTTP = Kind(400, "not-http", "The request is not HTTP")
TOO_SLOW = Kind(408, "too-slow", "The request did not come in time")
TARGET_TOO_LONG = Kind(414, "target-too-long", "The path with its query is too long")
HEAD_TOO_LARGE = Kind(431, "head-too-large", "The head is too large")
TOO_MANY_CONNECTIONS = Kind(503, "too-many-connections", "Too many connections are open")

MAX_HEADERS = 100
MAX_PIPELINED = 100
_STEP_BITS = 16  # a body or an answer has gone on when another 64 KiB of it has passed
# A socket that is closed with something unread resets the connection, and the client may lose the answer.
LINGER_S = 2.0


class Connection(HttpToolsProtocol):
    """One client's connection."""

    limits: ClassVar[Limits]
    sweep: ClassVar[Sweep]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._head_bytes = 0  # read in a row that were no body
        self._unsure_bytes = 0  # read before, some of which may be of the same head
        self._body_came = False
        self._may_be_large = False
        self._read_bytes = 0
        self._refusal: tuple[Kind, str] | None = None  # the parser is being stopped for it
        self._deaf = False  # what comes is not read any more
        self._last_answer: bytes | None = None  # waits for the answers before it
        self._ended = False
        self._seen: tuple[Phase, int] = (Phase.FIRST, 0)
        self._seen_scope: object = None
        self.since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        has_room = self.sweep.has_room(self.connections)
        super().connection_made(transport)
        self.sweep.watch(self.connections, self.loop)
        if not has_room:
            self._refuse(TOO_MANY_CONNECTIONS, f"{self.limits.connections} connections are being answered")
            transport.close()

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        before, self._body_came = self.cycle, False
        self._read_bytes += len(data)
        self._may_be_large = self._unsure_bytes + self._head_bytes + len(data) > self.limits.head_bytes
        super().data_received(data)
        if self._deaf or self.scope is None:
            return
        in_head = "method" not in self.scope
        if not in_head and not self.cycle.more_body:
            self._head_bytes = self._unsure_bytes = 0
        elif self.cycle is not before or self._body_came:
            self._head_bytes, self._unsure_bytes = 0, len(data)
        else:
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.head_bytes:
                self._refusal = (HEAD_TOO_LARGE, f"it has more than {self.limits.head_bytes} bytes")
        if in_head:
            self._look_at_head()
        if self._refusal is not None:
            self._refuse(*self._refusal)

    def on_headers_complete(self) -> None:
        self._look_at_head()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refusal = (NOT_HTTP, f"more than {MAX_PIPELINED} requests were sent ahead of their answers")
        if self._refusal is not None:
            raise httptools.HttpParserError
        super().on_headers_complete()
        self.headers = _NO_TRAILERS

    def on_body(self, body: bytes) -> None:
        self._body_came = True
        super().on_body(body)

    def on_response_complete(self) -> None:
        was_last = not self.pipeline
        super().on_response_complete()
        if not was_last or self.transport.is_closing():
            return
        if self._last_answer is not None:
            self._end(self._last_answer)
        elif self.cycle.more_body and self.cycle.response_complete and not self._is_small():
            # Answered before its body was read; nothing of what still comes is of use. A small rest is let go by, as
            # the client, who was told nothing of an end, may have sent its next request already.
            self._end(b"")

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or (NOT_HTTP, "it can't be read")))

    def _unsupported_upgrade_warning(self) -> None:
        # The parser has let go of what came with the request, so what comes next can't be told apart.
        self._deaf = True
        self.cycle.keep_alive = False

    def _is_small(self) -> bool:
        """Whether the request has said that its body takes one step at most."""
        declared = next((value for name, value in self.scope["headers"] if name == b"content-length"), b"")
        return declared.isdigit() and int(declared) <= 1 << _STEP_BITS

    def _look_at_head(self) -> None:
        if len(self.url) > self.limits.head_bytes // 4:
            self._refusal = (TARGET_TOO_LONG, f"it has more than {self.limits.head_bytes // 4} bytes")
        elif len(self.headers) > MAX_HEADERS:
            self._refusal = (HEAD_TOO_LARGE, f"it has more than {MAX_HEADERS} lines")
        elif self._may_be_large and self._parsed_bytes() > self.limits.head_bytes:
            self._refusal = (HEAD_TOO_LARGE, f"it has more than {self.limits.head_bytes} bytes")

    def _parsed_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse(self, kind: Kind, detail: str) -> None:
        """Has the request that is coming in answered with the problem, behind those before it, and the last one."""
        self._deaf = True
        metrics.HTTP_REFUSED.labels(str(kind.status)).inc()
        cycle = self.cycle
        under_way = cycle is not None and not cycle.response_complete
        if under_way and "method" in self.scope and cycle.more_body:
            # The refused request is with the application, or is queued to be.
            if self.pipeline:
                self.pipeline.popleft()
            else:
                if cycle.response_started:
                    self.transport.abort()
                    return
                cycle.disconnected = True
                cycle.message_event.set()
                under_way = False
        self._last_answer = self._answer(kind, detail)
        if not under_way:
            self._end(self._last_answer)

    def _answer(self, kind: Kind, detail: str) -> bytes:
        identity = request_id.new()
        document = problems.document(kind, detail, identity.decode())
        headers = [
            *self.server_state.default_headers,
            (b"content-type", problems.MEDIA_TYPE.encode()),
            (b"content-length", b"%d" % len(document)),
            (b"x-request-id", identity),
            (b"connection", b"close"),
        ]
        if kind.status == 503:
            headers.append((b"retry-after", b"1"))
        head = b"".join(b"%b: %b\r\n" % header for header in headers)
        return b"%b%b\r\n%b" % (STATUS_LINE[kind.status], head, document)

    def _end(self, last_answer: bytes) -> None:
        self._deaf = self._ended = True
        self._unset_keepalive_if_required()
        self.flow.resume_reading()
        self.transport.write(last_answer)
        if self.transport.can_write_eof():
            self.transport.write_eof()
        else:
            self.transport.close()

    @property
    def phase(self) -> Phase:
        if self.transport.get_write_buffer_size():
            return Phase.READING
        if self._ended:
            return Phase.END
        if self._last_answer is not None or self._deaf:
            return Phase.ANSWER
        if self.scope is None:
            return Phase.FIRST
        if "method" not in self.scope:
            return Phase.HEAD
        if self.cycle.more_body:
            return Phase.ANSWER if self.flow.read_paused else Phase.BODY
        return Phase.IDLE if self.cycle.response_complete else Phase.ANSWER

    def look(self, now_s: float) -> None:
        """Ends what has not gone on for too long."""
        phase, passed = self.phase, 0
        if phase is Phase.BODY:
            passed = self._read_bytes >> _STEP_BITS
        elif phase is Phase.READING:
            passed = self.transport.get_write_buffer_size() >> _STEP_BITS
        if phase is Phase.ANSWER or (phase, passed) != self._seen or self.scope is not self._seen_scope:
            self._seen, self._seen_scope, self.since_s = (phase, passed), self.scope, now_s
            return
        limit_s = {Phase.IDLE: self.limits.keep_alive_s, Phase.END: LINGER_S}.get(phase, self.limits.client_timeout_s)
        if now_s - self.since_s < limit_s:
            return
        if phase in (Phase.HEAD, Phase.BODY):
            self._refuse(TOO_SLOW, f"nothing more of it, or too little, came for {limit_s:g} s")
        elif phase is Phase.READING:
            metrics.HTTP_REFUSED.labels("none").inc()
            self.transport.abort()
        else:
            self.transport.close()


def front_door(limits: Limits) -> type[asyncio.Protocol]:
    """The protocol that uvicorn is to give connections to."""
    return type("LimitedProtocol", (Connection,), {"limits": limits, "sweep": Sweep(limits)})


# Fields behind the last chunk would else join the head's, one by one and without end.
_NO_TRAILERS: Any = deque(maxlen=0)
