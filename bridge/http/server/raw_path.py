"""Routes by the path as the client wrote it, so that `%2F` inside a segment does not split it.

Servers decode a path before they route it: `/v1/topics/shop%2Forders` would have four segments. Under `/v1/` this
middleware restores the written path. It decodes and encodes each segment, so that two spellings of one path are equal.
A handler decodes a path parameter once, with `urllib.parse.unquote`.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from starlette.types import ASGIApp, Receive, Scope, Send


class RawPath:
    """ASGI middleware: restores the path as the client wrote it, for requests whose path begins with `under`."""

    def __init__(self, app: ASGIApp, *, under: str) -> None:
        self._app = app
        self._under = under

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw: bytes = scope.get("raw_path") or b""
            if b"%" in raw and scope["path"].startswith(scope.get("root_path", "") + self._under):
                scope["path"] = as_written(raw)
        await self._app(scope, receive, send)


def as_written(raw: bytes) -> str:
    """Returns the path with each segment percent-encoded in one way, whatever the client chose. `raw`: the path as the
    client wrote it."""
    path = raw.decode("ascii")
    return "/".join(quote(unquote(part), safe="") for part in path.split("/")) if "%" in path else path
