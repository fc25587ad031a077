"""Records an action of a command in the list of operators' actions."""

from __future__ import annotations

import typer

from bridge.model.action import COMMAND_LINE, Action, ActionName
from bridge.service.service import Service


async def record(service: Service, what: ActionName, *, target: str | None = None, count: int | None = None) -> None:
    """Records an action that is done. If Redis does not record it, prints a line on standard error and does not fail.

    Args:
        service: the default pool's service.
        target: the single object of the action, such as a token's id; None: the action has no single object.
        count: how many messages the action changed; None: the action has no count.
    """
    try:
        await service.actions.add(Action(what=what, who=COMMAND_LINE, target=target, count=count))
    except Exception as error:  # noqa: BLE001 - the action is done, whatever became of its record
        typer.echo(f"{what} is done, but not among the recorded actions: {error}", err=True)
