"""Serves `/console`: one page, its modules and style sheets, and a stream of the overview.

The files are in `page/`, and need no build step. The files in `page/vendor/` come from npm's packages, unchanged
(`make vendor`).
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response

from bridge.http.console.live import Live
from bridge.http.guard import Guard

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_FOLDER: Final = Path(__file__).parent / "page"
_MEDIA_TYPES: Final = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".txt": "text/plain",
}
_FILES: Final = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _MEDIA_TYPES)
# A change of any file changes the addresses of all files: modules import each other by relative paths.
_DIGEST: Final = sha256(b"".join(path.read_bytes() for path in _FILES)).hexdigest()[:16]
_URL: Final = f"console/{_DIGEST}"
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_CACHED: Final = {**_HEADERS, "Cache-Control": "public, max-age=31536000, immutable"}
_FRESH: Final = {**_HEADERS, "Cache-Control": "no-cache"}


def mount(app: FastAPI, pools: Pools, guard: Guard, *, tokens: bool) -> None:
    """Adds the console to the application. The page and its files need no token. `guard`: checks requests for the
    stream. `tokens`: whether the API needs a token."""
    page = (_FOLDER / "index.html").read_text()
    for name, value in {"files": _URL, "version": version("delaybridge"), "tokens": str(tokens).lower()}.items():
        page = page.replace(f"{{{name}}}", value)
    app.router.add_route("/console", partial(_page, page), methods=["GET"], include_in_schema=False)
    app.router.add_route("/console/", _to_page, methods=["GET"], include_in_schema=False)
    app.router.add_route("/console/live", Live(pools, guard).answer, methods=["GET"], include_in_schema=False)
    for path in _FILES:
        url = f"/{_URL}/{path.relative_to(_FOLDER).as_posix()}"
        app.router.add_route(url, partial(_file, path), methods=["GET"], include_in_schema=False)


async def _page(page: str, _: Request) -> Response:
    return HTMLResponse(page, headers=_FRESH)


async def _to_page(_: Request) -> Response:
    # The page's relative addresses count from the folder that holds it.
    return Response(status_code=308, headers={"Location": "../console"})


async def _file(path: Path, _: Request) -> Response:
    return FileResponse(path, media_type=_MEDIA_TYPES[path.suffix], headers=_CACHED)
