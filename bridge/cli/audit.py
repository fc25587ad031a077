"""Runs `delaybridge audit`: lists messages whose copy is lost, and publishes them again with `--repair`."""

from __future__ import annotations

import asyncio
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
from bridge.model.action import What
from bridge.model.durations import format_instant
from bridge.model.errors import Unavailable
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings

app = App()

_BEHIND = "the checkpoint is behind, so copies are late and not lost; nothing was checked. Run the audit again later"


@app.command()
def audit(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Publish them again with the bodies in Redis.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
    pool: Annotated[str, typer.Option(metavar="NAME", help=POOL_HELP)] = DEFAULT,
) -> None:
    """List messages whose copy is lost, and repair them.

    Such a message is past due and has no copy left, for example after somebody purged or deleted a queue.
    Settings come from the environment (BRIDGE_…), as for `serve`. Exit code 1: some messages were not repaired, a
    server did not answer, or the checkpoint is behind, so nothing could be checked.
    """
    whole = read_settings()
    settings = pool_of(whole, pool)
    configure(settings)  # otherwise warnings would be printed into the output
    try:
        overdue = asyncio.run(_find_overdue(settings, repair))
    except Unavailable as error:
        end_unavailable("audit", error, settings)
    if overdue is None:
        failures.end("audit", _BEHIND)
    repaired = sum(message.done is not None for message in overdue)
    if repair:
        asyncio.run(_record(whole, repaired))
    if json:
        typer.echo(orjson.dumps([_row(message) for message in overdue], option=orjson.OPT_INDENT_2).decode())
    else:
        for message in overdue:
            typer.echo("  ".join(f"{name}={value}" for name, value in _row(message).items()))
        typer.echo(f"{len(overdue)} overdue, {repaired} repaired.")
    if any(message.done is None for message in overdue):
        raise typer.Exit(failures.FAILED)


async def _find_overdue(settings: Settings, repair: bool) -> list[Overdue] | None:
    """Runs the audit and returns all overdue messages. None: the checkpoint is behind, so nothing could be checked.
    `repair`: publishes the messages again."""
    service = Service(settings)
    audit_pass = Audit(service.context)
    overdue: list[Overdue] = []
    try:
        while (page := await audit_pass.run_once(repair=repair)) is not None:
            overdue += page.found
            if page.last:
                return overdue
        return None
    finally:
        await service.close()


async def _record(settings: Settings, repaired: int) -> None:
    service = Service(settings)  # the default pool's service, as that pool records the actions on all pools
    try:
        await record(service, What.REPAIR, count=repaired)
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
