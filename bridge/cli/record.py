"""Records what a command has done, among operators' actions."""

from __future__ import annotations

import typer

from bridge.model.action import COMMAND_LINE, Action, What
from bridge.service.service import Service


async def record(service: Service, what: What, *, target: str | None = None, count: int | None = None) -> None:
    """Records the action. If Redis refuses that, it says so on standard error: the action itself is done.

    Args:
        service: of the default pool.
    """
    try:
        await service.actions.add(Action(what=what, who=COMMAND_LINE, target=target, count=count))
    except Exception as error:  # noqa: BLE001 - the action is done, whatever became of its record
        typer.echo(f"{what} is done, but not among the recorded actions: {error}", err=True)
