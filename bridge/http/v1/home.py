"""Answers at the root path: redirects a browser to the console, and shows other clients a page of links."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

# The links are relative, for proxies that serve the bridge below a path. The page loads nothing, so it works offline.
_LINKS: Final = {
    "console": "see whether messages are on time, find them and steer them",
    "docs": "every call, with examples",
    "openapi.json": "the same as an OpenAPI document",
    "health/ready": "whether the bridge is ready, and its findings",
    "metrics": "metrics for Prometheus",
}


async def home(request: Request, *, console: bool) -> Response:
    """Answers with a page of links. `console`: this process serves the console, so a browser is redirected there."""
    if console and "text/html" in request.headers.get("accept", ""):
        return Response(status_code=303, headers={"Location": "console"})
    links = {path: text for path, text in _LINKS.items() if console or path != "console"}
    items = "".join(f'<li><a href="{path}">/{path}</a>: {text}</li>' for path, text in links.items())
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>delaybridge</title>'
        f"<h1>delaybridge {version('delaybridge')}</h1><p>Delivers messages later.</p><ul>{items}</ul></html>"
    )
