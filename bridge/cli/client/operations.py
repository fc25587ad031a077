"""Runs `delaybridge operations …`: lists, shows and cancels bulk operations."""

from __future__ import annotations

from collections.abc import Mapping
from time import sleep
from typing import Annotated, Any, Final

import typer

from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api
from bridge.cli.client.command import command
from bridge.cli.client.options import Most, quoted
from bridge.cli.client.output import Output
from bridge.cli.groups import App, ListByDefault

app = App(ListByDefault, help="List, show and cancel bulk operations. Without a command: list.")

COLUMNS: Final = {
    "id": "id",
    "action": "action",
    "topic": "filter.topic",
    "state": "state",
    "matched": "matched",
    "done": "done",
    "failed": "failed",
    "begun": "created_at",
}
_LOOK_EVERY_S: Final = 0.25

_Id = Annotated[str, typer.Argument(metavar="ID", help="The id of the operation.")]


@command(app, "list")
def list_operations(api: Api, output: Output, *, limit: Most = 100) -> None:
    """List operations, the newest first."""
    for page in api.pages("/v1/operations", {}, limit):
        output.rows(page, COLUMNS)


@command(app)
def show(api: Api, output: Output, operation_id: _Id) -> None:
    """Show an operation with its counts."""
    output.show(api.call("GET", _path(operation_id)))


@command(app)
def cancel(api: Api, output: Output, operation_id: _Id) -> None:
    """Cancel an operation. Changed messages stay changed."""
    output.show(api.call("POST", _path(operation_id, "/cancel")))


def until_ended(api: Api, output: Output, begun: Mapping[str, Any]) -> Answer:
    """Waits until an operation has ended, and returns the bridge's last answer about it. Shows the progress on a
    terminal. `begun`: the bridge's description of the operation when the operation began."""
    from bridge.cli.progress import progress  # noqa: PLC0415 - rich costs much of a command's start

    done = 0
    path = _path(begun["id"])
    try:
        with progress(f"of {begun['matched']:,} messages changed", lambda: done):
            while (answer := api.call("GET", path)).value["state"] == "running":
                done = answer.value["done"]
                sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        output.note(f"The operation goes on. `delaybridge operations cancel {begun['id']}` cancels it.")
        raise
    return answer


def _path(operation_id: str, rest: str = "") -> str:
    return f"/v1/operations/{quoted(operation_id)}{rest}"
