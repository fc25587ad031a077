"""Refuses a request that a page of another site makes with a browser's session.

Browsers send no SameSite=Strict cookie with a request from another site. But they count a page from another port of
this host as the same site. This check refuses the requests of that page too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from bridge.access.errors import OtherSite
from bridge.access.refusals import report

_READS: Final = ("GET", "HEAD")


def check_same_site(method: str, headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Checks by the header Sec-Fetch-Site that a page of this bridge made the request. Browsers send that header only
    over https and to localhost. If it is missing, the header Origin decides, which browsers send with each request that
    changes something.

    Raises:
        OtherSite: a page of another site made the request, or a request that changes something has neither header.
    """
    sent = {name: value.decode("latin-1") for name, value in headers if name in _DECIDING}
    fetch_site, origin = sent.get(b"sec-fetch-site"), sent.get(b"origin")
    if fetch_site is not None:
        if fetch_site == "same-origin" or (fetch_site == "none" and method in _READS):
            return
        header, value = "Sec-Fetch-Site", fetch_site
    elif origin is not None:
        if urlsplit(origin).netloc == sent.get(b"host"):
            return
        header, value = "Origin", origin
    elif method in _READS:
        return
    else:
        header, value = "Origin", ""
    refusal = OtherSite(header, value)
    report(refusal)
    raise refusal


_DECIDING: Final = (b"sec-fetch-site", b"origin", b"host")
