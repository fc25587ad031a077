"""Decides where callbacks may go: which URLs a receiver may have, and which addresses their hosts may resolve to. Pure.

Without these rules, a client could use callbacks to reach hosts that only this machine can reach: its own servers, its
network, the metadata service of its cloud. So a URL must be https, and every address of its host must be public. The
setting BRIDGE_PUSH_ALLOW makes exceptions.
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
# No user, no fragment, and nothing that two URL parsers read differently. Names beyond ASCII must be in punycode.
URL_PATTERN: Final = rf'^https?://(({_LABEL}\.){{0,20}}{_LABEL}|{_IPV6})(:{_PORT})?(/[!"$-\[\]-~]*)?$'
URL_FORM: Final = "must be https://host, with port, path and query as needed: ASCII, no user, password or fragment"
_URL = re.compile(URL_PATTERN[:-1] + r"\Z")

# IANA's special-purpose registry for IPv4. One address is not in it: Azure's platform service, at a public address.
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
    """A receiver's URL. `host`: in lower case, and an IPv6 address without brackets. `target`: path and query as the
    caller wrote them."""

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
    """Parses a receiver's URL.

    Raises:
        ValueError: the text is longer than `MAX_URL` or does not have the form in `URL_FORM`.
    """
    if len(text) > MAX_URL or not _URL.match(text):
        raise ValueError(URL_FORM)
    try:
        parts = urlsplit(text)
        if "[" in parts.netloc:
            IPv6Address(parts.hostname or "")
    except ValueError:
        raise ValueError("must have an IPv6 address between its brackets, as in https://[2001:db8::1]/") from None
    path = parts.path or "/"
    return Url(
        scheme=parts.scheme,
        host=parts.hostname or "",
        port=parts.port or _DEFAULT_PORT[parts.scheme],
        target=f"{path}?{parts.query}" if parts.query else path,
    )


def non_public_kind(address: Address) -> str | None:
    """Returns the kind of an address that is not public, such as `loopback` or `private`. None: the address is
    public."""
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _REFUSED_IPV4.items() if address in network), None)
    plain = _plain(address)
    if isinstance(plain, IPv4Address):
        return non_public_kind(plain)
    kind = next((kind for network, kind in _REFUSED_IPV6.items() if plain in network), None)
    return kind if kind is not None or plain in _GLOBAL_IPV6 else "reserved"


def _plain(address: Address) -> Address:
    """Returns the IPv4 address inside an IPv4-mapped or NAT64 address, and any other address as it is."""
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return IPv4Address(int(address) & 0xFFFF_FFFF) if address in _NAT64 else address


@dataclass(frozen=True, slots=True)
class Allowed:
    """One entry of BRIDGE_PUSH_ALLOW: either `host`, a name, or `network`; the other one is None. `plain_http`: the
    entry also allows http."""

    host: str | None
    network: IPv4Network | IPv6Network | None
    plain_http: bool

    def __str__(self) -> str:
        return ("http://" if self.plain_http else "") + str(self.network or self.host)

    def matches(self, host: str, address: Address) -> bool:
        if self.network is None:
            return host.lower() == self.host
        plain = _plain(address)
        return plain.version == self.network.version and plain in self.network


def parse_allowed(text: str) -> tuple[Allowed, ...]:
    """Parses entries separated by commas. An entry is `host`, `address` or `network/bits`. With a leading `http://` the
    entry also allows http.

    Raises:
        ValueError: an entry has none of these forms; the text names it.
    """
    return tuple(_allowed(entry.strip()) for entry in text.split(",") if entry.strip())


def _allowed(entry: str) -> Allowed:
    where = entry.removeprefix("http://")
    plain_http = where != entry
    try:
        return Allowed(None, ip_network(where.strip("[]")), plain_http)
    except ValueError:
        if not re.fullmatch(rf"({_LABEL}\.)*{_LABEL}", where) or re.fullmatch(r"[0-9.]+", where):
            raise ValueError(f"{entry!r} must be a host, an address or network/bits") from None
        return Allowed(where.lower(), None, plain_http)


def refusal(url: Url, address: Address, allowed: Sequence[Allowed]) -> str | None:
    """Returns the reason why a callback to the URL may not go to this address of its host, as an error text. None: it
    may. `allowed`: the entries of BRIDGE_PUSH_ALLOW."""
    matching = [entry for entry in allowed if entry.matches(url.host, address)]
    if url.scheme == "http" and not any(entry.plain_http for entry in matching):
        return _PLAIN
    kind = non_public_kind(address)
    if kind is None or matching:
        return None
    return f"leads to {address}, which is not a public address ({kind}; BRIDGE_PUSH_ALLOW can allow it)"


def refusal_of_any(url: Url, addresses: Sequence[Address], allowed: Sequence[Allowed]) -> str | None:
    """Returns the first `refusal` among all addresses of the host. None: the callback may go to any of them."""
    return next((why for address in addresses if (why := refusal(url, address, allowed)) is not None), None)


def refusal_at_sight(url: Url, allowed: Sequence[Allowed]) -> str | None:
    """Returns a `refusal` that is certain before the host's name is resolved. None: there is none, or only the
    addresses can tell."""
    address = literal(url.host)
    if address is not None:
        return refusal(url, address, allowed)
    if url.scheme == "http" and not any(entry.plain_http for entry in allowed):
        return _PLAIN
    return None


def literal(host: str) -> Address | None:
    """Returns the host as an address if it is an IP address. None: it is a name."""
    try:
        return ip_address(host)
    except ValueError:
        return None
