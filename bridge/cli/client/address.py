"""Decides which bridge a command calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import httpx2
import typer

from bridge.local.running import data_dir, running_servers

DEFAULT: Final = "http://127.0.0.1:8080"


def address_of(url: str | None, token: str | None, environment: Mapping[str, str]) -> str:
    """Returns the bridge's URL without a slash at its end: `url`, else the URL of a running `make run`, else `DEFAULT`.

    Raises:
        BadParameter: `url` is malformed, or there is a token and no URL. The run file in the working folder may be a
            stranger's, and its URL could send the token anywhere.
    """
    if url:
        return _checked(url)
    if token:
        raise typer.BadParameter(
            f"a token goes only to a bridge that you name; set BRIDGE_URL, such as to {DEFAULT}", param_hint="--url"
        )
    running = running_servers(data_dir(environment))
    return DEFAULT if running is None else running.http_url


def _checked(url: str) -> str:
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise typer.BadParameter(f"{url[:100]!r} is no URL of a bridge: {error}", param_hint="--url") from None
    if parts.userinfo:
        raise typer.BadParameter("the URL has a user or a password; give a token instead", param_hint="--url")
    odd = parts.query or parts.fragment or (parts.port or 0) > 65_535
    if parts.scheme not in ("http", "https") or not parts.host or odd:
        raise typer.BadParameter(f"{url[:100]!r} is no URL of a bridge, such as {DEFAULT}", param_hint="--url")
    return url.rstrip("/")
