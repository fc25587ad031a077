"""Checks the URLs of RabbitMQ and its management API without ever showing their passwords."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import quote, unquote

from yarl import URL

from bridge.settings.amqp_login import read_login

_LOGIN: Final = re.compile(r"://([^/?#@:]*):[^/?#]*@")  # the last @ of an authority ends its login
_OPTION: Final = re.compile(r"([?&][^=&#]*)=[^&#]*")


def checked_amqp_url(text: str) -> str:
    """Checks one AMQP URL, or several with commas between them, and returns the text unchanged.

    Raises:
        ValueError: a URL is malformed; the text says what is wrong without showing the URL.
    """
    for part in text.split(","):
        _check(part.strip(), ("amqp", "amqps"), "amqp://user:password@host:5672/vhost")
        read_login(part.strip())
    return text


def checked_management_url(text: str) -> str:
    """Checks the URL of the management API, and returns it unchanged.

    Raises:
        ValueError: the URL is malformed; the text says what is wrong without showing the URL.
    """
    _check(text, ("http", "https"), "http://user:password@host:15672")
    return text


def amqp_endpoints(text: str) -> set[tuple[str, int, str]]:
    """Returns host, port and virtual host of each URL."""
    urls = [URL(part.strip()) for part in text.split(",")]
    return {(url.host or "", url.port or 0, unquote(url.raw_path[1:]) or "/") for url in urls}


def amqp_nodes(text: str) -> list[tuple[str, int, bool]]:
    """Returns host and port of each URL, and whether the URL asks for TLS, in the order of the URLs."""
    urls = [URL(part.strip()) for part in text.split(",")]
    return [(url.host or "", url.port or 0, url.scheme == "amqps") for url in urls]


def queues_page(management_url: str, amqp_url: str) -> str:
    """Returns the start of the address of a queue's page in RabbitMQ's management UI. The caller appends the queue's
    name."""
    url = URL(management_url).with_user(None)
    vhost = unquote(URL(amqp_url.split(",", maxsplit=1)[0].strip()).raw_path[1:]) or "/"
    return f"{str(url).rstrip('/')}/#/queues/{quote(vhost, safe='')}/"


def without_password(text: str) -> str:
    """Returns the URLs with `***` in place of each password. Also masks passwords in the options of a Redis URL."""
    return _OPTION.sub(_masked_option, _LOGIN.sub(r"://\1:***@", text))


def _masked_option(option: re.Match[str]) -> str:
    return f"{option[1]}=***" if "password" in unquote(option[1]).lower() else option[0]


def _check(text: str, schemes: Sequence[str], form: str) -> None:
    try:
        url = URL(text)
        fits = url.scheme in schemes and bool(url.host) and bool(url.port)
    except ValueError:
        fits = False
    if not fits:
        hint = "percent-encode what is neither a letter nor a digit in user and password"
        # The cause would show the URL.
        raise ValueError(f"the URL must have the form {form}, or {schemes[1]}://…; {hint}") from None
