"""Runs `delaybridge ack` and `nack`: ends messages, and gives messages back."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from bridge.cli import failures
from bridge.cli.client.api import Api, document, message_path, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.options import Delay, MessageId, Receipt, Topic, number_or_text
from bridge.cli.client.output import Output
from bridge.cli.groups import App

app = App()

_MOST: Final = 1_000


@command(app)
def ack(
    api: Api,
    output: Output,
    topic: Topic,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="The ids of the messages.")] = None,
    *,
    receipt: Annotated[
        list[str] | None,
        typer.Option(metavar="RECEIPT", help="A receipt in place of an id: good for its own lease alone; repeatable."),
    ] = None,
) -> None:
    """End messages, so that they are not delivered again.

    Name up to 1000 messages by their ids, or by the receipts of their pulls. The exit code is 4 or 5 if a message was
    not acknowledged.
    """
    given = ids or receipt or []
    if bool(ids) == bool(receipt) or len(given) > _MOST:
        raise typer.BadParameter(f"give 1 to {_MOST} ids or receipts, not both", param_hint="ID")
    acked = api.call("POST", topic_path(topic, "/ack"), document({"ids": ids or None, "receipts": receipt or None}))
    results = acked.items()
    output.rows(results, {"id": "id", "result": "result"})
    missed = [result.value["result"] for result in results if result.value["result"] != "acked"]
    if missed:
        output.note(f"{len(missed)} of {len(results)} were not acknowledged.")
        raise typer.Exit(failures.NOT_FOUND if set(missed) == {"unknown"} else failures.FORBIDDEN_BY_STATE)


@command(app)
def nack(
    api: Api,
    output: Output,
    topic: Topic,
    message_id: MessageId,
    *,
    receipt: Receipt = None,
    delay: Delay = None,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why; kept with the message.")] = None,
) -> None:
    """Give back a message that could not be processed.

    It is delivered again after --delay, or after the back-off of its topic. Without a retry left it is a dead letter.
    """
    wanted = {"receipt": receipt, "delay": number_or_text(delay), "reason": reason}
    output.show(api.call("POST", message_path(topic, message_id, "/nack"), document(wanted)))
