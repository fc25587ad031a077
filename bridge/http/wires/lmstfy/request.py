"""Reads a request of lmstfy's wire: its path's parameters, query, headers and body."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO

from starlette.requests import ClientDisconnect, Request

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.parameters import Query
from bridge.http.wires.lmstfy.wire import Wire
from bridge.model.action import LMSTFY, Action, ActionName

# An unwanted body is read up to this size: a client may not read the answer before it has sent its whole body.
_DRAINED_BYTES = 1024 * 1024


@dataclass
class WireRequest:
    """A request, after the search for its route.

    `route` is the pattern that the path fits, "" if it fits none. `params` are the path's values by the pattern's
    names. `changed`: how many messages an operator's action has changed; None: the action is not about messages.
    """

    wire: Wire
    http: Request
    request_id: str
    route: str
    params: Mapping[str, str]
    changed: int | None = None
    _body_was_read: bool = False

    @cached_property
    def query(self) -> Query:
        return Query.of(self.http.scope["query_string"])

    @property
    def namespace(self) -> str:
        return self.params["namespace"]

    @property
    def queue(self) -> str:
        """The queue's name; for a consume, one or more names with commas between them."""
        return self.params["queue"]

    def header(self, name: str) -> str:
        return self.http.headers.get(name, "")

    def acting(
        self, what: ActionName | None, *, topic: str | None = None, target: str | None = None
    ) -> AbstractAsyncContextManager[None]:
        """Returns a context that records the operator's action `what` when it ends. `what` None: nothing is recorded.
        The record does not name the token: it is a secret without an id. `target`: what the action is about."""
        if what is None:
            return nullcontext()
        return self.wire.actions.recording(
            lambda: Action(what=what, who=LMSTFY, topic=topic, target=target, count=self.changed)
        )

    async def body(self, limit_bytes: int, refusal: str) -> bytes:
        """Returns the body.

        Raises:
            Refusal: the body is larger than `limit_bytes`: HTTP 413 with the text `refusal`.
        """
        self._body_was_read = True
        body = BytesIO()
        size = 0
        async for chunk in self.http.stream():
            size += len(chunk)
            if size <= limit_bytes:
                body.write(chunk)
            elif size > limit_bytes + _DRAINED_BYTES:
                break
        if size > limit_bytes:
            raise Refusal(413, error=refusal)
        return body.getvalue()

    async def drain(self) -> None:
        """Reads and drops a body that no handler has read, up to 1 MiB of it."""
        headers = self.http.headers
        if self._body_was_read or not (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
            return
        self._body_was_read = True
        size = 0
        try:
            async for chunk in self.http.stream():
                size += len(chunk)
                if size > _DRAINED_BYTES:
                    return
        except ClientDisconnect:
            return
