"""One request of this wire, and what is found out about it on its way to its handler."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect, Request

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.parameters import Query
from bridge.store.lmstfy import Holder, Limit

if TYPE_CHECKING:
    from bridge.http.wires.lmstfy.wire import Wire
    from bridge.service.service import Service

# What is not wanted is read all the same, so far, as a client may read no answer before it has sent all.
_DRAINED_BYTES = 1024 * 1024


@dataclass(slots=True)
class Found:
    """`namespace`: once the request may use it. `service` and `holder` are its token's, `limit` is of the token."""

    pool: str = ""
    namespace: str = ""
    holder: Holder | None = None
    limit: Limit | None = None
    service: Service | None = None


@dataclass
class LmstfyRequest:
    """`route`: the pattern that its path fits; `params`: what the path gives for the pattern's names."""

    wire: Wire
    request: Request
    request_id: str
    route: str = ""
    params: Mapping[str, str] = field(default_factory=dict)
    found: Found = field(default_factory=Found)
    _read: bool = False

    @cached_property
    def query(self) -> Query:
        return Query.of(self.request.scope["query_string"])

    @property
    def namespace(self) -> str:
        return self.params["namespace"]

    @property
    def queue(self) -> str:
        return self.params["queue"]

    @property
    def service(self) -> Service:
        assert self.found.service is not None
        return self.found.service

    def header(self, name: str) -> str:
        return self.request.headers.get(name, "")

    async def body(self, limit_bytes: int, refusal: str) -> bytes:
        """
        Raises:
            Refusal: HTTP 413, with this text; all of it has been read then.
        """
        self._read = True
        parts: list[bytes] = []
        size = 0
        async for part in self.request.stream():
            size += len(part)
            if size <= limit_bytes:
                parts.append(part)
            elif size > limit_bytes + _DRAINED_BYTES:
                break
        if size > limit_bytes:
            raise Refusal(413, error=refusal)
        return b"".join(parts)

    async def drain(self) -> None:
        """Reads what is left of a body that nobody wanted."""
        headers = self.request.headers
        if self._read or not (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
            return
        self._read = True
        size = 0
        try:
            async for part in self.request.stream():
                size += len(part)
                if size > _DRAINED_BYTES:
                    return
        except ClientDisconnect:
            return
