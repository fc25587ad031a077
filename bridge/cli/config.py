"""Runs `delaybridge config …`: shows the settings with their sources, and checks them."""

from __future__ import annotations

import json as json_lib
from collections.abc import Iterator
from typing import Annotated

import typer

from bridge.access.access import Undecided, asks_for_tokens
from bridge.cli import failures
from bridge.cli.columns import aligned
from bridge.cli.groups import App
from bridge.http.wires.lmstfy.mount import check_admin_port
from bridge.model.errors import WrongSettings
from bridge.settings.reading import given, read
from bridge.settings.roles import Role
from bridge.settings.settings import Settings
from bridge.settings.shown import shown
from bridge.settings.unknown import PREFIX

app = App(help="Show the settings, and check them.")


@app.command()
def show(
    *, json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line (NDJSON).")] = False
) -> None:
    """Show each setting: its value, its source and its origin.

    The sources are: default, file (of BRIDGE_CONFIG or --config), secret (a file with one value), credential (of
    systemd), environment. The origin is the path of the file or the name of the variable. `***` is in place of each
    password.
    """
    rows = list(_rows(_read()))
    if json:
        for row in rows:
            typer.echo(json_lib.dumps(row, ensure_ascii=False))
        return
    cells = [[cell if isinstance(cell, str) else json_lib.dumps(cell) for cell in row.values()] for row in rows]
    for line in aligned([list(rows[0]), *cells]):
        typer.echo(line)


@app.command()
def check() -> None:
    """Check all settings, without asking a server.

    Exit code 2: a setting is unknown or wrong, or no setting says who may use the bridge. One line for each unknown or
    wrong setting names it and where it was given.
    """
    settings = _read()
    try:
        asks_for_tokens(settings)
        if settings.lmstfy and Role.API in settings.roles:
            check_admin_port(settings)
    except Undecided as error:
        failures.end("config", str(error), failures.WRONG)
    sources = given()
    typer.echo(f"The settings are valid: {len(sources)} given, {len(Settings.model_fields) - len(sources)} by default.")


def _read() -> Settings:
    try:
        return read()
    except WrongSettings as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(failures.WRONG) from None


def _rows(settings: Settings) -> Iterator[dict[str, str | int | bool | None]]:
    sources = given()
    for name in Settings.model_fields:
        source = sources.get(name)
        yield {
            "setting": f"{PREFIX}{name.upper()}",
            "value": shown(settings, name),
            "source": "default" if source is None else source.place,
            "origin": None if source is None else source.origin,
        }
