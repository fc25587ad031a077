"""Logs one line for each request that the application answers: who asked for what, and how it was answered.

The line is written before the answer's last bytes: a client that has its answer finds the line in the log.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bridge.access.token import masked
from bridge.http.scope_keys import LOGGED_PATH, TOKEN_ID

log = structlog.get_logger(__name__)

_LEFT: Final = 499  # as nginx logs a client that has left before its answer
_FAILED: Final = 500
_LENGTH: Final = b"content-length"
_LONGEST: Final = 512  # characters of a path


class AccessLog:
    """ASGI middleware in front of the whole application: logs each request. It logs no bodies and no queries, because
    they may contain secrets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began_s = monotonic()
        status = sent_bytes = 0
        length = -1  # of the answer, where it is declared
        is_logged = False
        path: str = scope["path"]  # now: the application changes the scope

        def write_line() -> None:
            nonlocal is_logged
            if is_logged:
                return
            is_logged = True
            log.info(
                "http.request",
                method=scope["method"],
                path=_shown(scope.get(LOGGED_PATH, path)),
                status=status or _LEFT,
                took_ms=round((monotonic() - began_s) * 1_000, 3),
                bytes=sent_bytes,
                token=scope.get(TOKEN_ID),
            )

        async def send_counted(message: Message) -> None:
            nonlocal status, sent_bytes, length
            if message["type"] == "http.response.start":
                status = message["status"]
                length = next((int(value) for name, value in message.get("headers", ()) if name == _LENGTH), -1)
            else:
                sent_bytes += len(message.get("body", b""))
                if sent_bytes == length or not message.get("more_body", False):
                    write_line()
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        except BaseException:
            status = status or _FAILED
            raise
        finally:
            write_line()


def _shown(path: str) -> str:
    """Returns the path without the secret of a token that a client has put there by mistake. Cuts a long path."""
    shown = masked(path.encode(errors="replace")).decode() if "dbt_" in path else path
    return shown if len(shown) <= _LONGEST else shown[:_LONGEST] + "…"
