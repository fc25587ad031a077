"""Who may use the admin port: accounts with passwords, where there are any."""

from __future__ import annotations

from base64 import b64encode
from hmac import compare_digest

from starlette.responses import Response

from bridge.access.access import Undecided, is_loopback
from bridge.http.wires.lmstfy.answers import Refusal
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.settings.settings import Settings


def check_admin_port(settings: Settings) -> None:
    """
    Raises:
        Undecided: others than this machine could make tokens.
    """
    decided = settings.lmstfy_admin_port is None or settings.lmstfy_accounts or settings.access == "open"
    if not decided and not is_loopback(settings.lmstfy_admin_host):
        raise Undecided(
            f"BRIDGE_LMSTFY_ADMIN_HOST is {settings.lmstfy_admin_host or 'every address'}, which others can reach: set"
            " BRIDGE_LMSTFY_ACCOUNTS, or, where something in front decides who may do what, BRIDGE_ACCESS=open"
        )


class _NoAccount(Refusal):
    def __init__(self) -> None:
        super().__init__(401)
        self.answer = Response(status_code=401, headers={"WWW-Authenticate": 'Basic realm="Authorization Required"'})


async def check_account(exchange: LmstfyRequest) -> None:
    """
    Raises:
        Refusal
    """
    accounts = exchange.wire.settings.lmstfy_accounts
    if not accounts:
        return
    given = exchange.header("Authorization").encode()
    found = False
    for user, password in accounts.items():
        found |= compare_digest(given, b"Basic " + b64encode(f"{user}:{password}".encode()))
    if not found:
        raise _NoAccount
