"""Refuses requests from pages of other sites if this wire requires no account or token. Answers in the wire's form."""

from __future__ import annotations

from bridge.access.errors import ForeignSite
from bridge.access.local import check_local
from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.request import WireRequest


def check_site(request: WireRequest) -> None:
    """Checks that the headers Host and Origin, if the request has them, name `localhost` or a loopback address.

    Raises:
        Refusal: one of the headers names another host.
    """
    try:
        check_local(request.http.scope["headers"])
    except ForeignSite as error:
        raise Refusal(403, error=str(error)) from None
