"""Reads the heads of requests. Accepts only HTTP/1.1, and only requests to this server.

A client may offer another protocol in its first request (`Upgrade: h2c`, as the JDK's client does on each connection
without TLS). A server may ignore the offer (RFC 9110, section 7.8). But httptools takes the bytes behind such a head
for the other protocol, and drops the body. So the parser gets that head once more, without the offer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

import httptools

Header = tuple[bytes, bytes]

_OFFER: Final = (b"upgrade", b"http2-settings")
_SCHEMES: Final = (b"http://", b"https://")


class WrongHead(Exception):
    """The head of a request is not valid HTTP/1.1. The text says why."""


class Offered(Protocol):
    """The connection that owns a `RequestParser`. It can return the bytes of the head that has just arrived, with the
    offer of another protocol (`Upgrade`) left out."""

    def without_offer(self) -> bytes:
        """Returns the bytes of the head that has just arrived, without the offer of another protocol."""
        ...


class RequestParser:
    """Parses requests with httptools, which calls `owner`'s methods, such as `on_headers_complete`. A head that offers
    another protocol (`Upgrade`) is parsed twice: as it came, and then without the offer. The first time
    `should_upgrade()` is true, and `owner` must not begin the request."""

    def __init__(self, owner: Offered) -> None:
        self._owner = owner
        self._begin()

    def _begin(self) -> None:
        parser = httptools.HttpRequestParser(self._owner)
        # A request may follow one that asks to close the connection. The server reads it, and does not answer it.
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._parser = parser
        self.get_method, self.get_http_version = parser.get_method, parser.get_http_version
        self.should_keep_alive, self.should_upgrade = parser.should_keep_alive, parser.should_upgrade

    def feed_data(self, data: bytes) -> None:
        while True:
            try:
                return self._parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                data = self._owner.without_offer() + data[upgrade.args[0] :]
                self._begin()  # the former parser takes no more data if the connection closes after this request


def without_offer(method: bytes, target: bytes, version: str, headers: Iterable[Header]) -> bytes:
    """Returns the bytes of a request's head without the headers that offer another protocol."""
    lines = [b"%b %b HTTP/%b" % (method, target, version.encode())]
    for name, value in headers:
        kept = value if name != b"connection" else b", ".join(word for word in tokens(value) if word not in _OFFER)
        if name not in _OFFER and (kept or name != b"connection"):
            lines.append(b"%b: %b" % (name, kept))
    return b"\r\n".join([*lines, b"", b""])


def to_this_server(target: bytes, headers: list[Header]) -> bytes:
    """Returns the path and query of a request's target. A target in absolute form (`http://host/path`) names the host,
    whatever the header Host says (RFC 9112, section 3.2.2). Its host then replaces Host in `headers`.

    Raises:
        WrongHead: the target is neither a path nor such a URL.
    """
    if target.startswith(b"/"):
        return target
    scheme = next((scheme for scheme in _SCHEMES if target[: len(scheme)].lower() == scheme), None)
    if scheme is None:
        raise WrongHead("the target must be a path, or a URL that begins with http:// or https://")
    rest = target[len(scheme) :]
    end = min((at for at in map(rest.find, (b"/", b"?", b"#")) if at >= 0), default=len(rest))
    authority, path = rest[:end], rest[end:]
    if not authority or b"@" in authority:
        raise WrongHead("the host of the target is missing, or has a user's name")
    headers[:] = [(b"host", authority), *(header for header in headers if header[0] != b"host")]
    return path if path.startswith(b"/") else b"/" + path


def unknown_coding(headers: Sequence[Header]) -> str | None:
    """Returns the first transfer coding that the parser does not decode: any coding in front of `chunked`. None: no
    such coding. If `chunked` is not the last coding, the body has no known end, and the parser refuses it."""
    codings = [coding for name, value in headers if name == b"transfer-encoding" for coding in tokens(value)]
    if len(codings) < 2 or codings[-1] != b"chunked":
        return None
    return codings[0].decode("latin-1")


def tokens(value: bytes) -> list[bytes]:
    """Returns the elements of a header's value that is a list with commas, in lower case and without empty ones."""
    return [word for part in value.split(b",") if (word := part.strip().lower())]
