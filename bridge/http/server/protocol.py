"""Limits what a connection costs: the size of a request's head, the time a client takes, the number of connections.

The parser limits no head, and uvicorn waits for the rest of a request for ever. This protocol refuses a request that is
too large, too slow or not HTTP. The refusal follows the answers to earlier requests; then the connection closes.

There is no timer per request. Once a second every connection is checked; one whose state has not changed is stalled.
While the bridge works on an answer, as in a long poll, the client is not late.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic
from typing import Any, ClassVar

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from bridge.http.problems import ProblemType
from bridge.http.server import heads
from bridge.http.server.heads import RequestParser, WrongHead
from bridge.http.server.pulse import Pulse
from bridge.http.server.refusals import (
    HEAD_TOO_LARGE,
    NOT_HTTP,
    TARGET_TOO_LONG,
    TOO_MANY_CONNECTIONS,
    TOO_SLOW,
    UNAVAILABLE,
    UNKNOWN_CODING,
    is_always_answered,
    refusal_bytes,
)
from bridge.http.server.sweep import Limits, Phase, Sweep
from bridge.http.server.unread import UnreadAnswers
from bridge.metrics.http import CONNECTIONS, REFUSED

MAX_HEADERS = 100
MAX_PIPELINED = 100
_STEP_BITS = 16  # a body or an answer makes progress with each 64 KiB
# Closing a socket with unread bytes resets the connection, and the client may lose the answer. So the bridge reads on
# for this long.
LINGER_S = 2.0


class HttpConnection(HttpToolsProtocol):
    """One client's connection. uvicorn creates it and feeds it bytes; `sweep` checks it once a second."""

    limits: ClassVar[Limits]
    sweep: ClassVar[Sweep]
    unread: ClassVar[UnreadAnswers]
    pulse: ClassVar[Pulse]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.parser = RequestParser(self)  # type: ignore[assignment]
        self._head_bytes = 0  # bytes read since the last byte of a body
        self._unsure_bytes = 0  # bytes of the previous read, which may hold the start of this head
        self._body_came = False
        self._may_be_large = False
        self._read_bytes = 0
        self._refusal: tuple[ProblemType, str] | None = None  # why the parser is being stopped
        self._deaf = False  # ignores what the client still sends
        self._is_old = False  # requests that it reads may have waited while the bridge stood still
        self._last_answer: bytes | None = None  # follows the answers to earlier requests
        self._ended = False
        self._next: tuple[RequestResponseCycle, Any] | None = None  # begins once the client has read the former answer
        self._last_progress: tuple[Phase, int] = (Phase.FIRST, 0)
        self._last_scope: object = None
        self.since_s = self.loop.time()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        has_room = self.sweep.has_room(self.connections)
        super().connection_made(transport)
        CONNECTIONS.set(len(self.connections))
        self.sweep.watch(self.connections, self.loop)
        if not has_room:
            detail = f"all {self.limits.connections} connections are busy: try again in a second"
            self._refuse(TOO_MANY_CONNECTIONS, detail)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._next = None
        self.unread.note(self, 0)
        CONNECTIONS.set(len(self.connections))

    def data_received(self, data: bytes) -> None:
        if self._deaf:
            return
        if monotonic() > self.pulse.fresh_until_s:
            self._is_old = True
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
                self._refusal = (HEAD_TOO_LARGE, f"the head has more than {self.limits.head_bytes} bytes")
        if in_head:
            self._check_head()
        if self._refusal is not None:
            self._refuse(*self._refusal)

    def on_headers_complete(self) -> None:
        self._check_head()
        if len(self.pipeline) >= MAX_PIPELINED:
            self._refusal = (
                NOT_HTTP,
                f"more than {MAX_PIPELINED} requests wait on this connection: read answers before you send more",
            )
        is_offer = self.parser.should_upgrade()
        if self._refusal is None:
            self._read_head()
        if self._is_old and self._refusal is None and not is_always_answered(self.url.decode("latin-1")):
            self._refusal = (UNAVAILABLE, str(self.pulse.why()))
        if self._refusal is not None:
            raise httptools.HttpParserError
        if is_offer:
            return  # the parser calls again, without the offer
        super().on_headers_complete()
        self.headers = _NO_TRAILERS

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()

    def without_offer(self) -> bytes:
        return heads.without_offer(
            self.parser.get_method(), self.url, self.parser.get_http_version(), list(self.headers)
        )

    def _read_head(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            self._refusal = (NOT_HTTP, "the bridge is no proxy: CONNECT is not possible")
            return
        try:
            self.url = heads.to_this_server(self.url, self.headers)
        except WrongHead as wrong:
            self._refusal = (NOT_HTTP, str(wrong))
        coding = heads.unknown_coding(self.headers)
        if coding is not None:
            self._refusal = (UNKNOWN_CODING, f"Transfer-Encoding: the coding {coding} is unknown; send chunked alone")

    def stood_still(self) -> None:
        """Refuses waiting requests, because the event loop stalled for too long. These are the requests that this
        connection has read and whose handling has not begun. If reading was paused, unread requests may have waited
        equally long. The connection then also refuses these requests when it reads them."""
        self._is_old = self._is_old or self.flow.read_paused
        refuse: Any = self.pulse.refuse
        self.pipeline = deque((cycle, refuse) for cycle, _ in self.pipeline)
        if self._next is not None:
            self._next = self._next[0], refuse

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unread.note(self, self.transport.get_write_buffer_size())

    def resume_writing(self) -> None:
        super().resume_writing()
        self.unread.note(self, 0)
        if self._next is not None:
            waiting, self._next = self._next, None
            self._start_asgi_task(*waiting)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self.unread.holds(self):
            self._next = cycle, app
        else:
            bounded = self.unread.bounded(app, cycle.scope)  # type: ignore[arg-type]
            super()._start_asgi_task(cycle, self.pulse.in_time(bounded))  # type: ignore[arg-type]

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
            # The bridge answered before it read the body, and does not need the rest. A small rest is read and dropped:
            # the client does not expect the connection to close and may have sent its next request already.
            self._end(b"")

    def send_400_response(self, msg: str) -> None:
        self._refuse(*(self._refusal or (NOT_HTTP, "the bytes can't be parsed as an HTTP/1.1 request")))

    def _is_small(self) -> bool:
        """Whether the request declared a body of at most 64 KiB, one step of progress."""
        declared = next((value for name, value in self.scope["headers"] if name == b"content-length"), b"")
        return declared.isdigit() and int(declared) <= 1 << _STEP_BITS

    def _check_head(self) -> None:
        target_bytes = self.limits.head_bytes // 4
        if len(self.url) > target_bytes:
            self._refusal = (TARGET_TOO_LONG, f"the path with its query has more than {target_bytes} bytes")
        elif len(self.headers) > MAX_HEADERS:
            self._refusal = (HEAD_TOO_LARGE, f"the head has more than {MAX_HEADERS} header lines")
        elif self._may_be_large and self._parsed_bytes() > self.limits.head_bytes:
            self._refusal = (HEAD_TOO_LARGE, f"the head has more than {self.limits.head_bytes} bytes")

    def _parsed_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _refuse(self, problem_type: ProblemType, detail: str) -> None:
        """Answers the arriving request with the problem. This is the connection's last answer, after the answers to
        earlier requests."""
        self._deaf = True
        REFUSED.labels(str(problem_type.status)).inc()
        cycle = self.cycle
        in_progress = cycle is not None and not cycle.response_complete
        if in_progress and "method" in self.scope and cycle.more_body:
            # The refused request is the last one: the application has it, or it waits in the pipeline.
            if self.pipeline:
                self.pipeline.popleft()
            else:
                if cycle.response_started:
                    self.transport.abort()
                    return
                cycle.disconnected = True
                cycle.message_event.set()
                in_progress = False
        self._last_answer = refusal_bytes(problem_type, detail, self.server_state.default_headers)
        if not in_progress:
            self._end(self._last_answer)

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
        """What the connection waits for now."""
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

    def check(self, now_s: float) -> None:
        """Refuses the request or closes the connection if the client has made no progress for longer than `limits`
        allow. `now_s`: the time of the event loop."""
        phase, steps = self.phase, 0
        if phase is Phase.BODY:
            steps = self._read_bytes >> _STEP_BITS
        elif phase is Phase.READING:
            unread_bytes = self.transport.get_write_buffer_size()
            steps = unread_bytes >> _STEP_BITS
            if self.unread.holds(self):
                self.unread.note(self, unread_bytes)
        if phase is Phase.ANSWER or (phase, steps) != self._last_progress or self.scope is not self._last_scope:
            self._last_progress, self._last_scope, self.since_s = (phase, steps), self.scope, now_s
            return
        limit_s = {Phase.IDLE: self.limits.keep_alive_s, Phase.END: LINGER_S}.get(phase, self.limits.client_timeout_s)
        if now_s - self.since_s < limit_s:
            return
        if phase is Phase.HEAD:
            self._refuse(TOO_SLOW, f"the head did not arrive within {limit_s:g} s")
        elif phase is Phase.BODY:
            self._refuse(TOO_SLOW, f"less than {1 << _STEP_BITS} bytes of the body arrived in {limit_s:g} s")
        elif phase is Phase.READING:
            REFUSED.labels("none").inc()
            self.transport.abort()
        else:
            self.transport.close()


def limited_protocol(limits: Limits, pulse: Pulse) -> type[asyncio.Protocol]:
    """Returns the protocol class for uvicorn's setting `http`. All its connections share `limits`. `pulse`: notices
    stalls of the event loop; the server starts it."""
    return type(
        "LimitedProtocol",
        (HttpConnection,),
        {"limits": limits, "sweep": Sweep(limits), "unread": UnreadAnswers(limits.unread_bytes), "pulse": pulse},
    )


# Drops the trailer fields behind the last chunk. uvicorn would append each of them to the headers, without a limit.
_NO_TRAILERS: Any = deque(maxlen=0)
