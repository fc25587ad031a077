"""Where callbacks may go: URLs of receivers, and the addresses that their names may lead to. Pure.

Whoever may have a message sent to a URL could else reach what only this machine can: its own servers, its network, the
metadata of its cloud. So a URL is https and every address of its host public, unless the settings allow others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import urlsplit

Address = IPv4Address | IPv6Address

MAX_URL: Final = 2_048
_LABEL = "[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_PORT = "(6553[0-5]|655[0-2][0-9]|65[0-4][0-9]{2}|6[0-4][0-9]{3}|[1-5][0-9]{4}|[1-9][0-9]{0,3})"
_IPV6 = r"\[[0-9A-Fa-f:.]{2,45}\]"
# No user, no fragment, nothing that parsers of URLs read differently; a name beyond ASCII is written in punycode.
URL_PATTERN: Final = rf'^https?://(({_LABEL}\.){{0,20}}{_LABEL}|{_IPV6})(:{_PORT})?(/[!"$-\[\]-~]*)?$'
URL_FORM: Final = "must be https://host, with port, path and query as needed: ASCII, no user, password or fragment"
_URL = re.compile(URL_PATTERN[:-1] + r"\Z")

# IANA's special-purpose registry for IPv4, and one public address that is none: the platform service inside Azure.
_REFUSED_IPV4: Final = {
    IPv4Network(network): kind
    for network, kind in {
        "0.0.0.0/8": "this host",
        "10.0.0.0/8": "private",
        "100.64.0.0/10": "shared by a carrier's customers",
        "127.0.0.0/8": "loopback",
        "168.63.129.16/32": "a cloud's own",
        "169.254.0.0/16": "link-local",
        "172.16.0.0/12": "private",
        "192.0.0.0/24": "reserved",
        "192.0.2.0/24": "reserved",
        "192.88.99.0/24": "reserved",
        "192.168.0.0/16": "private",
        "198.18.0.0/15": "reserved",
        "198.51.100.0/24": "reserved",
        "203.0.113.0/24": "reserved",
        "224.0.0.0/4": "multicast",
        "240.0.0.0/4": "reserved",
    }.items()
}
_GLOBAL_IPV6: Final = IPv6Network("2000::/3")
_REFUSED_IPV6: Final = {
    IPv6Network(network): kind
    for network, kind in {
        "::/128": "this host",
        "::1/128": "loopback",
        "fc00::/7": "private",
        "fe80::/10": "link-local",
        "ff00::/8": "multicast",
        "2001::/23": "reserved",
        "2001:db8::/32": "reserved",
        "2002::/16": "a tunnel's",
        "3fff::/20": "reserved",
    }.items()
}
_PLAIN: Final = "must be https (BRIDGE_PUSH_ALLOW can allow http)"
_NAT64: Final = IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Url:
    """`target`: path and query as they were given."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> str:
        return f"{self.scheme}://{self.authority}"

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORT[self.scheme] else f"{host}:{self.port}"

    def __str__(self) -> str:
        return self.origin + self.target


_DEFAULT_PORT: Final = {"http": 80, "https": 443}


def parse_url(text: str) -> Url:
    """
    Raises:
        ValueError: it is no URL of a receiver.
    """
    if len(text) > MAX_URL or not _URL.match(text):
        raise ValueError(URL_FORM)
    try:
        parts = urlsplit(text)
        if "[" in parts.netloc:
            IPv6Address(parts.hostname or "")
    except ValueError:
        raise ValueError("has no IPv6 address in its brackets") from None
    path = parts.path or "/"
    return Url(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or _DEFAULT_PORT[parts.scheme],
        target=f"{path}?{parts.query}" if parts.query else path,
    )


def kind_of(address: Address) -> str | None:
    """What the address is where it is not a public one, in a word; None: it is."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _REFUSED_IPV4.items() if address in network), None)
    plain = _plain(address)
    if isinstance(plain, IPv4Address):
        return kind_of(plain)
    kind = next((kind for network, kind in _REFUSED_IPV6.items() if plain in network), None)
    return kind if kind is not None or plain in _GLOBAL_IPV6 else "reserved"


def _plain(address: Address) -> Address:
    """The IPv4 address that the IPv6 one stands for, where it does."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry of the settings: a host's name, or a network. `plainly`: over http too."""

    host: str | None
    network: IPv4Network | IPv6Network | None
    plainly: bool

    def matches(self, host: str, address: Address) -> bool:
        if self.network is None:
            return host.lower() == self.host
        plain = _plain(address)
        return plain.version == self.network.version and plain in self.network


def parse_allowed(text: str) -> tuple[Allowed, ...]:
    """The entries of `host`, `address` or `network/bits`, separated by commas, each with `http://` before it where that
    will do.

    Raises:
        ValueError: one can't be read.
    """
    return tuple(_allowed(entry.strip()) for entry in text.split(",") if entry.strip())


def _allowed(entry: str) -> Allowed:
    where = entry.removeprefix("http://")
    plainly = where != entry
    try:
        return Allowed(None, ip_network(where.strip("[]")), plainly)
    except ValueError:
        if not re.fullmatch(rf"({_LABEL}\.)*{_LABEL}", where) or re.fullmatch(r"[0-9.]+", where):
            raise ValueError(f"{entry!r} is neither a host nor an address nor network/bits") from None
        return Allowed(where.lower(), None, plainly)


def refusal(url: Url, address: Address, allowed: Sequence[Allowed]) -> str | None:
    """Why a callback to the URL may not go to this address of its host; None: it may."""
    own = [entry for entry in allowed if entry.matches(url.host, address)]
    if url.scheme == "http" and not any(entry.plainly for entry in own):
        return _PLAIN
    kind = kind_of(address)
    if kind is None or own:
        return None
    return f"leads to {address}, which is no public address ({kind}; BRIDGE_PUSH_ALLOW can allow it)"


def refusal_of_any(url: Url, addresses: Sequence[Address], allowed: Sequence[Allowed]) -> str | None:
    """The same for all the addresses of the host: the first refusal."""
    return next((why for address in addresses if (why := refusal(url, address, allowed)) is not None), None)


def refusal_at_sight(url: Url, allowed: Sequence[Allowed]) -> str | None:
    """The same as far as it can be told without asking what the host's name leads to."""
    address = literal(url.host)
    if address is not None:
        return refusal(url, address, allowed)
    if url.scheme == "http" and not any(entry.plainly for entry in allowed):
        return _PLAIN
    return None


def literal(host: str) -> Address | None:
    """The address, where the host is one."""
    try:
        return ip_address(host)
    except ValueError:
        return None
