"""Answers a browser at the root with links to the documentation, health and metrics."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

# The links are relative, for proxies that serve the bridge below a path. The page loads nothing, so it works offline.
_LINKS: Final = {
    "docs": "every call, with examples",
    "openapi.json": "the same as an OpenAPI document",
    "health/ready": "whether the bridge is ready, and its findings",
    "metrics": "metrics for Prometheus",
}


async def home(_: Request) -> Response:
    """A page with the links."""
    items = "".join(f'<li><a href="{path}">/{path}</a>: {text}</li>' for path, text in _LINKS.items())
    return HTMLResponse(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>delaybridge</title>'
        f"<h1>delaybridge {version('delaybridge')}</h1><p>Delivers messages later.</p><ul>{items}</ul></html>"
    )
