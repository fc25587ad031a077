"""Reads the options of `delaybridge migrate`, and runs calls that end the command if they fail."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Annotated, TypeVar

import httpx2
import typer

from bridge.cli import failures, tls_options
from bridge.cli.local_servers import local_servers
from bridge.model.tls import client_context, tls_failure
from bridge.settings import amqp_urls
from topology.errors import TopologyError
from topology.management import Management, management
from topology.migration.kept import KeptFile
from topology.names import Names

Result = TypeVar("Result")

_DEFAULT_URL = "http://guest:guest@127.0.0.1:15672"


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options that all commands of `migrate` share. `exchanges`: the plugin's exchanges to move; empty: all.
    `file`: keeps what a command has to restore if it is interrupted. `url`: the bridge's URL; None: the user named no
    bridge."""

    management_url: str
    tls: SSLContext
    names: Names
    vhost: str
    exchanges: tuple[str, ...]
    file: KeptFile
    url: str | None
    token: str | None


def read_options(
    context: typer.Context,
    *,
    management_url: Annotated[
        str | None,
        typer.Option(
            envvar="BRIDGE_MANAGEMENT_URL",
            help="URL of RabbitMQ's management API, with a user who is an administrator. "
            f"Default: that of a running `make run`, or {_DEFAULT_URL}.",
        ),
    ] = None,
    tls_ca: tls_options.Authorities = None,
    tls_cert: tls_options.Certificate = None,
    tls_key: tls_options.CertificateKey = None,
    prefix: Annotated[str, typer.Option(envvar="BRIDGE_PREFIX", help="Prefix of the bridge's exchanges.")] = "delay",
    vhost: Annotated[str, typer.Option(help="The virtual host of the exchanges, and of the bridge.")] = "/",
    exchange: Annotated[
        list[str] | None, typer.Option(help="An exchange of the plugin. Can be repeated. Default: all.")
    ] = None,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="BRIDGE_URL",
            metavar="URL",
            help="A bridge on that virtual host: pauses the topic of an exchange that is being replaced, and counts its"
            " dead letters.",
        ),
    ] = None,
    token: Annotated[
        str | None, typer.Option(envvar="BRIDGE_TOKEN", metavar="TOKEN", help="A token for --url, of the scope admin.")
    ] = None,
    file: Annotated[Path, typer.Option(help="Keeps what a command has to restore if it is interrupted.")] = Path(
        "delaybridge-migration.json"
    ),
) -> None:
    asked = management_url or local_servers().get("management_url", _DEFAULT_URL)
    try:
        tls = client_context(tls_ca, tls_cert, tls_key)
        amqp_urls.checked_management_url(asked)
        names = Names(prefix=prefix)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    context.obj = Options(
        management_url=asked,
        tls=tls,
        names=names,
        vhost=vhost,
        exchanges=tuple(exchange or ()),
        file=KeptFile(file),
        url=_checked(url),
        token=token or None,
    )


def _checked(url: str | None) -> str | None:
    """Checks the URL of the bridge, and returns it; None: no bridge is named."""
    if not url:
        return None
    try:
        parts = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise typer.BadParameter(f"{url[:100]!r} is no URL: {error}", param_hint="--url") from None
    if parts.scheme not in ("http", "https") or not parts.host or parts.userinfo:
        raise typer.BadParameter("must be http://host:port or https://host:port, without a user", param_hint="--url")
    return url


def asked(options: Options, work: Callable[[Management], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with management(options.management_url, options.tls) as asked:
            return await work(asked)

    return failing(lambda: asyncio.run(run()), amqp_urls.without_password(options.management_url))


def failing(work: Callable[[], Result], where: str = "") -> Result:
    try:
        return work()
    except (TopologyError, httpx2.HTTPError, OSError, ValueError) as error:
        at = f" (asked {where})" if where else ""
        failures.end("migrate", f"{tls_failure(error) or str(error) or type(error).__name__}{at}")
