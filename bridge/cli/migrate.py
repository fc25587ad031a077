"""Runs `delaybridge migrate …`: moves exchanges of the delayed-message plugin to plain ones, step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Annotated, TypeVar

import httpx2
import orjson
import typer

from bridge.cli import failures, tls_options
from bridge.cli.columns import aligned
from bridge.cli.groups import App, OptionsAnywhere
from bridge.cli.local_servers import local_servers
from bridge.settings import amqp_urls
from bridge.settings.tls import client_context, tls_failure
from topology.errors import TopologyError
from topology.management import Management, management
from topology.migration.carry_out import Migration
from topology.migration.facts import Facts, read
from topology.migration.kept import KeptFile
from topology.migration.show import as_text, of_plugin
from topology.migration.show import status as rows_of
from topology.migration.steps import Choices, Held, Step, forward
from topology.migration.survey import survey
from topology.names import Names

app = App(OptionsAnywhere, help="Move exchanges of the delayed-message plugin to plain ones, and back.")

Result = TypeVar("Result")

_DEFAULT_URL = "http://guest:guest@127.0.0.1:15672"

_Json = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]
_Moved = Annotated[
    bool, typer.Option("--publishers-moved", help="Publishers send x-delay to the new exchanges, or use the door.")
]
_Held = Annotated[
    Held,
    typer.Option(
        help="Messages that wait in the plugin: `wait` until it has delivered them; let it `deliver` them through the"
        " plain exchange; or `lose` them, if the plugin is off."
    ),
]


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of all commands."""

    management_url: str
    tls: SSLContext
    names: Names
    vhost: str
    exchanges: tuple[str, ...]
    file: KeptFile


@app.callback()
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
    file: Annotated[Path, typer.Option(help="Keeps what a command has to restore if it is interrupted.")] = Path(
        "delaybridge-migration.json"
    ),
) -> None:
    url = management_url or local_servers().get("management_url", _DEFAULT_URL)
    try:
        tls = client_context(tls_ca, tls_cert, tls_key)
        amqp_urls.checked_management_url(url)
        names = Names(prefix=prefix)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    context.obj = Options(
        management_url=url, tls=tls, names=names, vhost=vhost, exchanges=tuple(exchange or ()), file=KeptFile(file)
    )


@app.command()
def plan(
    context: typer.Context,
    *,
    definitions: Annotated[
        Path | None, typer.Option(help="Read this definitions export in place of asking RabbitMQ.")
    ] = None,
    publishers_moved: _Moved = False,
    held: _Held = "wait",
    json: _Json = False,
) -> None:
    """Print each step, what is at risk in it, and how to go back. Changes nothing."""
    options: Options = context.obj
    choices = Choices(publishers_moved=publishers_moved, held=held)
    kept = _failing(lambda: options.file.read(options.vhost))
    if definitions is None:
        facts = _asked(options, lambda asked: _survey(asked, options))
    else:
        facts = _failing(lambda: _from_file(definitions, options))
    steps = forward(facts, options.names, choices, kept.begun)
    note = of_plugin(facts, kept.begun, kept.held)
    if json:
        typer.echo(orjson.dumps({"steps": [_step(step) for step in steps], "plugin": note}))
        return
    typer.echo(as_text(steps) or f"The virtual host {options.vhost} has no exchange of the plugin.")
    typer.echo(note)


@app.command()
def apply(
    context: typer.Context, *, publishers_moved: _Moved = False, held: _Held = "wait", json: _Json = False
) -> None:
    """Carry out each step that can be done now, and say what the others wait for. Exit code 5: some wait."""
    options: Options = context.obj
    choices = Choices(publishers_moved=publishers_moved, held=held)
    _end(options, lambda migration, did: migration.apply(choices, did), json=json)


@app.command()
def rollback(
    context: typer.Context,
    *,
    publishers_back: Annotated[
        bool, typer.Option("--publishers-back", help="Publishers send x-delay to the old exchanges again.")
    ] = False,
    json: _Json = False,
) -> None:
    """Undo the migration while the plugin is on. Exit code 5: a step waits."""
    options: Options = context.obj
    choices = Choices(publishers_back=publishers_back)
    _end(options, lambda migration, did: migration.rollback(choices, did), json=json)


@app.command()
def status(context: typer.Context, *, json: _Json = False) -> None:
    """Show where each exchange is, and whether the plugin may be switched off. Changes nothing."""
    options: Options = context.obj
    kept = _failing(lambda: options.file.read(options.vhost))
    facts = _asked(options, lambda asked: _survey(asked, options))
    rows = rows_of(facts, kept.begun, kept.held, options.names)
    note = of_plugin(facts, kept.begun, kept.held)
    if json:
        typer.echo(orjson.dumps({"exchanges": rows, "plugin": note}))
        return
    if rows:
        cells = [["-" if cell is None else str(cell) for cell in row.values()] for row in rows]
        typer.echo("\n".join(aligned([[name.upper() for name in rows[0]], *cells])))
    else:
        typer.echo(f"The virtual host {options.vhost} has no exchange of the plugin.")
    typer.echo(note)


def _end(
    options: Options,
    work: Callable[[Migration, Callable[[Step], None]], Awaitable[Sequence[Step]]],
    *,
    json: bool,
) -> None:
    """Runs `work`, prints its steps, and ends with the code for their state."""

    async def run(asked: Management) -> Sequence[Step]:
        migration = Migration(
            management=asked,
            names=options.names,
            vhost=options.vhost,
            file=options.file,
            wanted=options.exchanges,
        )
        return await work(migration, did)

    def did(step: Step) -> None:
        done.append(step)
        if not json:
            typer.echo(f"done: {step.exchange}: {step.what}")

    done: list[Step] = []
    steps = _asked(options, run)
    waiting = [step for step in steps if not step.is_done]
    if json:
        typer.echo(orjson.dumps({"done": [*map(_step, done)], "waiting": [*map(_step, waiting)]}))
    else:
        for step in waiting:
            typer.echo(f"waits: {step.exchange}: {step.what} {step.waits_for}")
        if not waiting:
            typer.echo("Every step is done.")
    if waiting:
        raise typer.Exit(failures.FORBIDDEN_BY_STATE)


def _step(step: Step) -> dict[str, object]:
    return {**asdict(step), "do": step.do.value}


async def _survey(asked: Management, options: Options) -> Facts:
    return await survey(asked, options.names, options.vhost, options.exchanges, options.file.read(options.vhost).begun)


def _from_file(file: Path, options: Options) -> Facts:
    return read(
        orjson.loads(file.read_bytes()),
        options.names,
        options.vhost,
        wanted=options.exchanges,
        may_miss=options.file.read(options.vhost).begun,
    )


def _asked(options: Options, work: Callable[[Management], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with management(options.management_url, options.tls) as asked:
            return await work(asked)

    return _failing(lambda: asyncio.run(run()), amqp_urls.without_password(options.management_url))


def _failing(work: Callable[[], Result], where: str = "") -> Result:
    try:
        return work()
    except (TopologyError, httpx2.HTTPError, OSError, ValueError) as error:
        at = f" (asked {where})" if where else ""
        failures.end("migrate", f"{tls_failure(error) or str(error) or type(error).__name__}{at}")
