"""Addresses of servers, with passwords in them: checked without ever being shown."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from yarl import URL


def amqp_url(text: str) -> str:
    """
    Raises:
        ValueError: says what is wrong, and not what is in it.
    """
    for part in text.split(","):
        _check(part.strip(), ("amqp", "amqps"), "amqp://user:password@host:5672/vhost")
    return text


def management_url(text: str) -> str:
    """
    Raises:
        ValueError: says what is wrong, and not what is in it.
    """
    _check(text, ("http", "https"), "http://user:password@host:15672")
    return text


def amqp_places(text: str) -> set[tuple[str, int, str]]:
    """Host, port and virtual host of each address."""
    urls = [URL(part.strip()) for part in text.split(",")]
    return {(url.host or "", url.port or 0, unquote(url.raw_path[1:]) or "/") for url in urls}


def without_password(text: str) -> str:
    """The address as it may be shown."""
    return ",".join(str(url.with_password("***") if (url := URL(part)).password else url) for part in text.split(","))


def _check(text: str, schemes: Sequence[str], form: str) -> None:
    try:
        url = URL(text)
        fits = url.scheme in schemes and bool(url.host) and bool(url.port)
    except ValueError:
        fits = False
    if not fits:
        hint = "what is neither a letter nor a digit in user and password is percent-encoded"
        # The cause would show the text.
        raise ValueError(f"the URL has to be {form}, or {schemes[1]}://…; {hint}") from None
