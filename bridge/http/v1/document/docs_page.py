"""Serves `/docs`: Swagger UI over the OpenAPI document, from files in this package.

The files are those of npm's swagger-ui-dist, unchanged. `make swagger` replaces them.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

import orjson
from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.requests import Request
from starlette.responses import FileResponse, Response

_FOLDER: Final = Path(__file__).parent / "swagger"
_VERSION: Final = orjson.loads((_FOLDER / "package.json").read_bytes())["version"]
_SCRIPT, _STYLE, _ICON = "swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png"
_MEDIA_TYPES: Final = {
    _SCRIPT: "text/javascript",
    f"{_SCRIPT}.LICENSE.txt": "text/plain",  # the script's first line names it
    _STYLE: "text/css",
    _ICON: "image/png",
}
_URL: Final = f"docs/{_VERSION}"
# A file of one version never changes.
_CACHE: Final = "public, max-age=31536000, immutable"


def mount(app: FastAPI) -> None:
    """Adds the page and its files to the application. They need no token."""
    app.router.add_route("/docs", partial(_page, app.title), methods=["GET"], include_in_schema=False)
    for name, media_type in _MEDIA_TYPES.items():
        app.router.add_route(
            f"/{_URL}/{name}", partial(_file, name, media_type), methods=["GET"], include_in_schema=False
        )


async def _page(title: str, _: Request) -> Response:
    # The links are relative, for proxies that serve the bridge below a path.
    return get_swagger_ui_html(
        openapi_url="openapi.json",
        title=title,
        swagger_js_url=f"{_URL}/{_SCRIPT}",
        swagger_css_url=f"{_URL}/{_STYLE}",
        swagger_favicon_url=f"{_URL}/{_ICON}",
        # By default the page sends the document's address to validator.swagger.io.
        swagger_ui_parameters={"validatorUrl": None},
    )


async def _file(name: str, media_type: str, _: Request) -> Response:
    return FileResponse(_FOLDER / name, media_type=media_type, headers={"Cache-Control": _CACHE})
