"""Checks the account that a request to the admin port gives, by HTTP basic authentication."""

from __future__ import annotations

from base64 import b64encode
from hmac import compare_digest

from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.request import WireRequest


class _NoAccount(Refusal):
    def __init__(self) -> None:
        super().__init__(401)
        self.answer = Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="Authorization Required"'})


def check_account(request: WireRequest) -> None:
    """Checks that the request gives one of the configured accounts, if there are any.

    Raises:
        Refusal: accounts are configured, and the request gives none of them.
    """
    accounts = request.wire.settings.lmstfy_accounts
    if not accounts:
        return
    given = request.header("Authorization").encode()
    matches = False
    for user, password in accounts.items():
        matches |= compare_digest(given, b"Basic " + b64encode(f"{user}:{password}".encode()))
    if not matches:
        raise _NoAccount
