"""Turns a function into a client command: adds the options that all client commands share, and ends the command if a
call fails."""

from __future__ import annotations

import inspect
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from bridge.cli import failures
from bridge.cli.client.address import DEFAULT, address_of
from bridge.cli.client.api import Api
from bridge.cli.client.errors import CallFailed
from bridge.cli.client.output import Output
from bridge.model.tls import Names, client_context

Run = Callable[..., None]


def command(app: typer.Typer, name: str | None = None) -> Callable[[Run], Run]:
    """Registers a function `run(api, output, …)` as a command. Its other parameters are the command's arguments and
    options. `name`: the command's name; None: the function's name with `-` for `_`."""

    def register(run: Run) -> Run:
        def start(
            *,
            context: typer.Context,
            url: str | None,
            token: str | None,
            ca: Path | None,
            cert: Path | None,
            key: Path | None,
            json: bool,
            **given: Any,
        ) -> None:
            address = address_of(url, token, os.environ)
            tls = _tls(ca, cert, key) if address.startswith("https:") else None
            with Api(address, _checked(token), tls) as api, Output(as_json=json) as output:
                try:
                    run(api, output, **given)
                except CallFailed as error:
                    failures.end(context.command_path.partition(" ")[2], str(error), error.code)

        signature = inspect.signature(run, eval_str=True)
        _, _, *own = signature.parameters.values()
        named = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
        start.__signature__ = signature.replace(parameters=[*named, *_SHARED])  # type: ignore[attr-defined]
        start.__annotations__ = {}
        start.__doc__ = run.__doc__
        app.command(name or run.__name__.replace("_", "-"))(start)
        return run

    return register


def _checked(token: str | None) -> str | None:
    if token and not (token.isascii() and token.isprintable()):
        raise typer.BadParameter(
            "must be printable ASCII, as `delaybridge token create` writes it", param_hint="--token"
        )
    return token or None


def _tls(ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    try:
        return client_context(ca, cert, key, Names("--ca", "--cert", "--key"))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _shared(
    *,
    context: typer.Context,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="BRIDGE_URL",
            metavar="URL",
            help=f"The bridge. Default: that of a running `make run`, or {DEFAULT}.",
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="BRIDGE_TOKEN", metavar="TOKEN", help="The token. Other users see an option; prefer the variable."
        ),
    ] = None,
    ca: Annotated[
        Path | None,
        typer.Option(
            envvar="BRIDGE_CA",
            metavar="FILE",
            help="PEM file of the authorities to trust, for https. Default: those of the system.",
        ),
    ] = None,
    cert: Annotated[
        Path | None,
        typer.Option(envvar="BRIDGE_CERT", metavar="FILE", help="PEM file of a client certificate, for https."),
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(envvar="BRIDGE_KEY", metavar="FILE", help="PEM file of its key, if a separate file holds it."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: one object a line.")] = False,
) -> None:
    """Has the options of every client command as its parameters. `_SHARED` reads them; nobody calls this function."""


_SHARED = tuple(inspect.signature(_shared, eval_str=True).parameters.values())
