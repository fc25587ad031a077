"""Refuses requests that pages of other sites make, through a browser on this machine, to a bridge without tokens.

A page of any site can make a browser send requests to a port on loopback. The header Origin names the page's site. If
a site has pointed its own name to this machine (DNS rebinding), the header Host has that name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import urlsplit

from bridge.access.access import is_loopback
from bridge.access.errors import ForeignSite
from bridge.access.refusals import report

_CACHED = 1_024


def check_local(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Checks that the headers Host and Origin, if the request has them, name `localhost` or a loopback address.

    Raises:
        ForeignSite: one of the headers names another host.
    """
    for name, value in headers:
        if name in (b"host", b"origin") and not _names_loopback(value):
            refusal = ForeignSite(name.decode().capitalize(), value.decode(errors="replace"))
            report(refusal)
            raise refusal


@lru_cache(maxsize=_CACHED)
def _names_loopback(value: bytes) -> bool:
    """Whether the host in a header is this machine. `value`: such as `localhost:8080` or `http://127.0.0.1`."""
    _, _, address = value.decode(errors="replace").rpartition("://")
    try:
        return is_loopback(urlsplit(f"//{address}").hostname or "")
    except ValueError:
        return False
