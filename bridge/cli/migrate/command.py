"""Runs `delaybridge migrate …`: moves exchanges of the delayed-message plugin to plain ones, step by step."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import orjson
import typer

from bridge.cli.columns import aligned
from bridge.cli.groups import App, OptionsAnywhere
from bridge.cli.migrate.options import Options, asked, failing, read_options
from bridge.cli.migrate.outcome import as_row, end, letters, tell_letters
from topology.management import Management
from topology.migration.facts import Facts, read
from topology.migration.prepare import PlainType
from topology.migration.prepare import prepare as new
from topology.migration.show import as_text, of_plugin
from topology.migration.show import status as rows_of
from topology.migration.steps import Choices, Held, forward
from topology.migration.survey import survey

app = App(OptionsAnywhere, help="Move exchanges of the delayed-message plugin to plain ones, and back.")
app.callback()(read_options)

_Json = Annotated[bool, typer.Option("--json", help="Print a JSON object.")]
_Moved = Annotated[
    bool, typer.Option("--publishers-moved", help="Publishers send x-delay to the new exchanges, or use the door.")
]
_Held = Annotated[
    Held,
    typer.Option(
        help="Messages that wait in the plugin: `wait` until it has delivered them, which loses none; let it `deliver`"
        " them through the plain exchange, which loses those that are due in the milliseconds of the replacement; or"
        " `lose` them, if the plugin is off. `none`, in a cluster: you have asked each node, and none holds any."
    ),
]


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
    kept = failing(lambda: options.file.read(options.vhost))
    if definitions is None:
        facts = asked(options, lambda rabbit: _survey(rabbit, options))
    else:
        facts = failing(lambda: _from_file(definitions, options))
    steps = forward(facts, options.names, choices, kept.begun)
    note = of_plugin(facts, kept.begun, kept.held)
    if json:
        typer.echo(orjson.dumps({"steps": [as_row(step) for step in steps], "plugin": note}))
        return
    typer.echo(as_text(steps) or f"The virtual host {options.vhost} has no exchange of the plugin.")
    typer.echo(note)


@app.command()
def apply(
    context: typer.Context, *, publishers_moved: _Moved = False, held: _Held = "wait", json: _Json = False
) -> None:
    """Carry out each step that can be done now, and say what the other steps wait for.

    Exit code 1: a replacement may have lost messages of the plugin, or the command failed. Exit code 5: some steps
    wait.
    """
    options: Options = context.obj
    choices = Choices(publishers_moved=publishers_moved, held=held)
    end(options, choices, lambda migration, did: migration.apply(choices, did), json=json)


@app.command()
def rollback(
    context: typer.Context,
    *,
    publishers_back: Annotated[
        bool, typer.Option("--publishers-back", help="Publishers send x-delay to the old exchanges again.")
    ] = False,
    json: _Json = False,
) -> None:
    """Undo the migration while the plugin is on.

    Exit code 1: a replacement may have lost messages of the plugin, or the command failed. Exit code 5: some steps
    wait.
    """
    options: Options = context.obj
    choices = Choices(publishers_back=publishers_back)
    end(options, choices, lambda migration, did: migration.rollback(choices, did), json=json)


@app.command()
def prepare(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="EXCHANGE", help="The exchange that clients declare and publish to.")],
    *,
    kind: Annotated[PlainType, typer.Option("--type", help="Its plain type: what clients name as x-delayed-type.")],
    json: _Json = False,
) -> None:
    """Declare an exchange and its ingress in a new environment, for clients behind the door.

    The door only checks whether an exchange exists, and never declares an exchange of the plugin's type. Existing
    objects stay unchanged.
    """
    options: Options = context.obj
    made = asked(options, lambda rabbit: new(rabbit, options.names, options.vhost, name, kind))
    typer.echo(orjson.dumps({"exchanges": made}) if json else f"{' and '.join(made)} exist.")


@app.command()
def status(context: typer.Context, *, json: _Json = False) -> None:
    """Show where each exchange is, and whether the plugin may be switched off. Changes nothing."""
    options: Options = context.obj
    kept = failing(lambda: options.file.read(options.vhost))
    facts = asked(options, lambda rabbit: _survey(rabbit, options))
    rows = rows_of(facts, kept.begun, kept.held, options.names)
    note = of_plugin(facts, kept.begun, kept.held)
    left = letters(options, [exchange.name for exchange in facts.exchanges])
    if json:
        typer.echo(orjson.dumps({"exchanges": rows, "plugin": note, "to_replay": left}))
        return
    if rows:
        cells = [["-" if cell is None else str(cell) for cell in row.values()] for row in rows]
        typer.echo("\n".join(aligned([[name.upper() for name in rows[0]], *cells])))
    else:
        typer.echo(f"The virtual host {options.vhost} has no exchange of the plugin.")
    typer.echo(note)
    tell_letters(options, left)


async def _survey(rabbit: Management, options: Options) -> Facts:
    return await survey(rabbit, options.names, options.vhost, options.exchanges, options.file.read(options.vhost).begun)


def _from_file(file: Path, options: Options) -> Facts:
    return read(
        orjson.loads(file.read_bytes()),
        options.names,
        options.vhost,
        wanted=options.exchanges,
        may_miss=options.file.read(options.vhost).begun,
    )
