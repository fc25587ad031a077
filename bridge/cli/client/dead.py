"""Runs `delaybridge dead …`: lists, replays and drops dead letters."""

from __future__ import annotations

from typing import Annotated

import typer

from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api, document, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.messages import COLUMNS
from bridge.cli.client.options import Most, Topic, quoted
from bridge.cli.client.output import Output
from bridge.cli.groups import App

app = App(help="List, replay and drop dead letters.")

_Id = Annotated[str | None, typer.Argument(metavar="ID", help="The id of one dead letter.")]
_Max = Annotated[int | None, typer.Option("--max", metavar="N", help="So many, 1 to 1000, the oldest first.")]


@command(app, "list")
def list_dead(api: Api, output: Output, topic: Topic, *, limit: Most = 100) -> None:
    """List the dead letters of a topic with their reasons."""
    for page in api.pages(topic_path(topic, "/dead"), {}, limit):
        output.rows(page, COLUMNS)


@command(app)
def replay(api: Api, output: Output, topic: Topic, message_id: _Id = None, *, most: _Max = None) -> None:
    """Make dead letters ready again. Their attempts are counted from the start.

    Give the id of one dead letter, or --max.
    """
    _check(message_id, most)
    output.show(_replayed(api, topic, message_id, most))


@command(app)
def drop(api: Api, output: Output, topic: Topic, message_id: _Id = None, *, most: _Max = None) -> None:
    """Delete dead letters.

    Give the id of one dead letter, or --max.
    """
    _check(message_id, most)
    one = f"/dead/{quoted(message_id)}" if message_id else "/dead"
    output.show(api.call("DELETE", topic_path(topic, one), query={"max": most}))


def _replayed(api: Api, topic: str, message_id: str | None, most: int | None) -> Answer:
    if message_id is not None:
        return api.call("POST", topic_path(topic, f"/dead/{quoted(message_id)}/replay"))
    return api.call("POST", topic_path(topic, "/dead/replay"), document({"max": most}))


def _check(message_id: str | None, most: int | None) -> None:
    if (message_id is None) == (most is None):
        raise typer.BadParameter("give the id of one, or --max, and not both", param_hint="ID")
