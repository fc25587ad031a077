"""Builds answers that equal Gin's byte for byte: Go's JSON, redirects and 404 pages."""

from __future__ import annotations

import json
from html import escape
from typing import Any, Final

from starlette.responses import Response

from bridge.http.wires import go_json

_JSON: Final = "application/json; charset=utf-8"


class Refusal(Exception):
    """Ends a request early. `answer`: the response to the request, made of the status and of the JSON members."""

    def __init__(self, status: int, /, **members: Any) -> None:
        super().__init__(members)
        self.answer = answer(status, **members)


def answer(status: int, /, **members: Any) -> Response:
    """Returns a response with a JSON object of the members, with sorted keys."""
    return document(status, dict(sorted(members.items())))


def document(status: int, value: Any) -> Response:
    return Response(go_json.marshal(value), status, media_type=_JSON)


def indented(status: int, value: Any) -> Response:
    return Response(as_indented(value), status, media_type=_JSON)


def as_indented(value: Any) -> bytes:
    return go_json.escaped(json.dumps(value, indent=4, sort_keys=True, ensure_ascii=False).encode(errors="replace"))


def nothing() -> Response:
    return Response(status_code=204)


def text(status: int, content: str | bytes) -> Response:
    return Response(content, status, media_type="text/plain; charset=utf-8")


def moved(method: str, target: str) -> Response:
    """Returns a redirect to `target`: with 301 for GET, with 307 for other methods. `method`: of the request."""
    if method != "GET":
        return Response(status_code=307, headers={"Location": target})
    page = f'<a href="{escape(target)}">Moved Permanently</a>.\n\n'
    return Response(page, 301, {"Location": target}, "text/html; charset=utf-8")


def api_not_found() -> Response:
    return answer(404, error="api not found")


def page_not_found() -> Response:
    return Response("404 page not found", 404, {"Content-Type": "text/plain"})
