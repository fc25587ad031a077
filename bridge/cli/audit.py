"""`delaybridge audit`: lists the messages whose copy is lost, and sends them again where that is wanted."""

from __future__ import annotations

import asyncio
from typing import Annotated

import orjson
import typer

from bridge.cli.pool_option import HELP, settings_of
from bridge.loops.audit import Audit, Overdue
from bridge.model.durations import format_instant
from bridge.model.errors import Unavailable
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings

_BEHIND = "the checkpoint is behind: copies are late, not lost; nothing was looked at"


def audit(
    *,
    repair: Annotated[bool, typer.Option("--repair", help="Send them again, from the bodies kept in Redis.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As a JSON array.")] = False,
    pool: Annotated[str, typer.Option(metavar="NAME", help=HELP)] = DEFAULT,
) -> None:
    """List messages that are past due with no copy left, as after a queue was purged or deleted by hand.

    Settings come from the environment (BRIDGE_…), as those of `serve`. Ends with 1 when some are left as they are, 2
    when a server is away, 3 when the checkpoint is behind, so that nothing can be told.
    """
    settings = settings_of(pool)
    try:
        found = asyncio.run(_look_at_all(settings, repair))
    except Unavailable as error:
        typer.echo(f"delaybridge audit: {error}", err=True)
        raise typer.Exit(2) from None
    if found is None:
        typer.echo(f"delaybridge audit: {_BEHIND}", err=True)
        raise typer.Exit(3)
    if json:
        typer.echo(orjson.dumps([_row(one) for one in found], option=orjson.OPT_INDENT_2).decode())
    else:
        for one in found:
            typer.echo("  ".join(f"{name}={value}" for name, value in _row(one).items()))
        typer.echo(f"{len(found)} overdue, {sum(one.done is not None for one in found)} repaired.")
    if any(one.done is None for one in found):
        raise typer.Exit(1)


async def _look_at_all(settings: Settings, repair: bool) -> list[Overdue] | None:
    context = Service(settings).context
    looking = Audit(context)
    found: list[Overdue] = []
    try:
        while (done := await looking.run_once(repair=repair)) is not None:
            found += done.found
            if done.last:
                return found
        return None
    finally:
        await context.broker.close()
        await context.store.close()


def _row(one: Overdue) -> dict[str, object]:
    record = one.record
    return {
        "topic": record.topic,
        "id": record.id,
        "state": record.state.label,
        "due_at": format_instant(record.due_ms),
        "overdue_ms": one.overdue_ms,
        "body_kept": one.body_kept,
        "done": one.done,
    }
