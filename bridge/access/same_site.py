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
    """Checks that a page of this bridge made the request. For GET and HEAD, the user may also have opened the address.

    The header Sec-Fetch-Site decides. Browsers send it only over https and to localhost. If it is missing, the header
    Origin decides, which browsers send with each method but GET and HEAD. A GET or HEAD without both headers is
    allowed.

    Raises:
        OtherSite: a page of another site made the request, or the request has neither header and is no GET or HEAD.
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
