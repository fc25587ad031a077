"""Runs `delaybridge audit`: lists messages whose copy is lost, and publishes them again with `--repair`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated

import orjson
import typer

from bridge.cli import failures
from bridge.cli.groups import App
from bridge.cli.logs import configure
from bridge.cli.pool_option import POOL_HELP, pool_of, read_settings
from bridge.cli.record import record
from bridge.cli.unavailable import end_unavailable
from bridge.loops.audit import Audit, Overdue
from bridge.model.action import ActionName
from bridge.model.durations import format_instant
from bridge.model.errors import Unavailable
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings

app = App()

_BEHIND = "the checkpoint is behind, so copies are late and not lost; nothing was checked. Run the audit again later"
_FELL_BEHIND = "the checkpoint has fallen behind meanwhile, so not everything was checked. Run the audit again later"


@app.command()
def audit(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Publish them again with the bodies in Redis.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
    pool: Annotated[str, typer.Option(metavar="NAME", help=POOL_HELP)] = DEFAULT,
) -> None:
    """List messages whose copy is lost; with --repair, publish them again.

    Such a message is past due and has no copy left, for example after somebody purged or deleted a queue. Settings come
    from the environment (BRIDGE_…). Exit code 1: a listed message was not repaired, a server did not answer, or the
    checkpoint is behind, so not all could be checked.
    """
    whole = read_settings()
    settings = pool_of(whole, pool)
    configure(settings)  # otherwise warnings would be printed into the output
    overdue: list[Overdue] = []
    is_whole, away = False, None
    try:
        is_whole = asyncio.run(_find_overdue(settings, overdue, repair=repair))
    except Unavailable as error:
        away = error
    repaired = sum(message.done is not None for message in overdue)
    if repair and (is_whole or repaired):
        try:
            asyncio.run(_record(whole, repaired))
        except Unavailable as error:
            away = away or error
    if is_whole or overdue:
        _print(overdue, repaired, json=json)
    if away is not None:
        end_unavailable("audit", away, settings)
    if not is_whole:
        failures.end("audit", _FELL_BEHIND if overdue else _BEHIND)
    if any(message.done is None for message in overdue):
        raise typer.Exit(failures.FAILED)


def _print(overdue: Sequence[Overdue], repaired: int, *, json: bool) -> None:
    if json:
        typer.echo(orjson.dumps([_row(message) for message in overdue], option=orjson.OPT_INDENT_2).decode())
    else:
        for message in overdue:
            typer.echo("  ".join(f"{name}={value}" for name, value in _row(message).items()))
        typer.echo(f"{len(overdue)} overdue, {repaired} repaired.")


async def _find_overdue(settings: Settings, overdue: list[Overdue], *, repair: bool) -> bool:
    """Runs the audit, and adds the overdue messages of each pass to `overdue`. Returns False if the checkpoint is
    behind, so not all records could be checked. `repair`: publishes the messages again.

    Raises:
        Unavailable: a server did not answer.
    """
    service = Service(settings)
    audit_pass = Audit(service.context)
    try:
        while (page := await audit_pass.run_once(repair=repair)) is not None:
            overdue += page.found
            if page.last:
                return True
        return False
    finally:
        await service.close()


async def _record(settings: Settings, repaired: int) -> None:
    service = Service(settings)  # the default pool's service, as that pool records the actions on all pools
    try:
        await record(service, ActionName.REPAIR, count=repaired)
    finally:
        await service.close()


def _row(message: Overdue) -> dict[str, object]:
    record = message.record
    return {
        "topic": record.topic,
        "id": record.id,
        "state": record.state.label,
        "due_at": format_instant(record.due_ms),
        "overdue_ms": message.overdue_ms,
        "body_kept": message.body_kept,
        "done": message.done,
    }
