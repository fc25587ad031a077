"""Runs `delaybridge pull`: takes ready messages under a lease."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from bridge.cli.client.api import Api, document, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.options import number_or_text
from bridge.cli.client.output import Output
from bridge.cli.groups import App

app = App()

_COLUMNS: Final = {
    "topic": "topic",
    "id": "id",
    "attempts": "attempts",
    "lease until": "lease_until",
    "receipt": "receipt",
    "body": "body",
}


@command(app)
def pull(
    api: Api,
    output: Output,
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="The topic, or several: the most urgent first.")],
    *,
    most: Annotated[int, typer.Option("--max", metavar="N", help="The most messages to take, 1 to 100.")] = 1,
    wait: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long to wait for the first, up to 60s.")
    ] = None,
    lease: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long you have to acknowledge them. Default: as the topic says."),
    ] = None,
) -> None:
    """Take ready messages under a lease.

    A message is delivered again, unless `delaybridge ack` acknowledges it before its lease ends. If no message is
    ready, the command prints nothing; the exit code is 0.
    """
    wanted = {"max": most, "wait": number_or_text(wait), "lease": number_or_text(lease)}
    if len(topics) == 1:
        answer = api.call("POST", topic_path(topics[0], "/pull"), document(wanted))
    else:
        answer = api.call("POST", "/v1/pull", document({"topics": topics, **wanted}))
    pulled = answer.items()
    if pulled:
        output.rows(pulled, _COLUMNS)
    else:
        output.note("No message was ready in time.")
