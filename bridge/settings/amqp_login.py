"""Reads from an AMQP URL where to connect and how to log in. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, cast
from urllib.parse import unquote

from yarl import URL

Mechanism = Literal["PLAIN", "EXTERNAL"]
"""How a client proves who it is. PLAIN: by user and password. EXTERNAL: by its TLS certificate."""

_LONGEST_VIRTUAL_HOST: Final = 127  # characters, by pamqp
_HEARTBEAT_S: Final = 5  # finds a silent server after some 20 s, a silent client after 10; RabbitMQ offers 60
_LONGEST_HEARTBEAT_S: Final = 65_535
_OPTIONS: Final = ("auth", "heartbeat")


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """An address and a login. `response`: what the bridge sends for the mechanism: user and password, or nothing for
    EXTERNAL. `heartbeat_s`: the interval in which each side wants to hear the other, 0 for none."""

    host: str
    port: int
    tls: bool
    virtual_host: str
    mechanism: Mechanism
    response: str = field(repr=False)  # has the password
    heartbeat_s: int


def read_login(text: str) -> Login:
    """Reads a URL that the settings have checked. The query may have `heartbeat` in seconds, and `auth=external`.

    Raises:
        ValueError: the query has an option or a login that the bridge does not know, or a heartbeat that is no number;
            or the name of the virtual host is too long.
    """
    url = URL(text)
    for option in url.query.keys() - set(_OPTIONS):
        raise ValueError(f"{option}: is no option of the URL; it may have {' and '.join(_OPTIONS)}")
    mechanism = url.query.get("auth", "plain").upper()
    if mechanism not in ("PLAIN", "EXTERNAL"):
        raise ValueError(f"auth: {mechanism.lower()!r} is no login of this bridge; use plain or external")
    heartbeat = url.query.get("heartbeat", str(_HEARTBEAT_S))
    if not (heartbeat.isascii() and heartbeat.isdecimal() and int(heartbeat) <= _LONGEST_HEARTBEAT_S):
        raise ValueError(f"heartbeat: {heartbeat!r} is no number of seconds from 0 to {_LONGEST_HEARTBEAT_S}")
    virtual_host = unquote(url.raw_path[1:]) or "/"
    if len(virtual_host) > _LONGEST_VIRTUAL_HOST:
        raise ValueError(f"the virtual host has {len(virtual_host)} characters, and may have {_LONGEST_VIRTUAL_HOST}")
    return Login(
        host=url.host or "",
        port=url.port or 0,
        tls=url.scheme == "amqps",
        virtual_host=virtual_host,
        mechanism=cast(Mechanism, mechanism),
        response=f"\0{url.user or 'guest'}\0{url.password or 'guest'}" if mechanism == "PLAIN" else "",
        heartbeat_s=int(heartbeat),
    )
