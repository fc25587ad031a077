"""Runs the commands on messages that exist: `delaybridge get`, `timeline`, `move`, `run-now`, `delete` and `list`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from bridge.cli.client.api import Api, document, message_path
from bridge.cli.client.command import command
from bridge.cli.client.options import (
    Delay,
    DeliverAt,
    DueAfter,
    DueBefore,
    IdPrefix,
    IfMatch,
    Labels,
    MessageId,
    Most,
    Reason,
    ReasonPattern,
    States,
    Topic,
    ascii_header,
    number_or_text,
    pairs,
)
from bridge.cli.client.output import Output
from bridge.cli.groups import App

app = App()

COLUMNS: Final = {
    "id": "id",
    "state": "state",
    "due at": "due_at",
    "attempts": "attempts",
    "reason": "reason",
    "body": "body",
}

STEPS: Final = {
    "at": "at",
    "what": "what",
    "attempt": "attempt",
    "slot": "slot",
    "late ms": "late_ms",
    "token": "token_id",
    "reason": "reason",
}


@command(app)
def get(
    api: Api,
    output: Output,
    topic: Topic,
    message_id: MessageId,
    *,
    etag: Annotated[bool, typer.Option("--etag", help="Print only the ETag, for --if-match.")] = False,
) -> None:
    """Look up a message.

    An ended message can be looked up for an hour, and a deleted one for a week, unless the settings say otherwise.
    """
    message = api.call("GET", message_path(topic, message_id))
    if etag:
        typer.echo(api.etag)
    else:
        output.show(message)


@command(app)
def timeline(api: Api, output: Output, topic: Topic, message_id: MessageId) -> None:
    """Show what happened to a message.

    The bridge keeps a message's last 16 transitions for as long as the message's record. A note says if older
    transitions are missing.
    """
    answer = api.call("GET", message_path(topic, message_id, "/timeline"))
    output.rows(answer.items(), STEPS)
    if not answer.value["complete"]:
        output.note("Older transitions are missing.")


@command(app)
def move(
    api: Api, output: Output, topic: Topic, message_id: MessageId, *, delay: Delay = None, deliver_at: DeliverAt = None
) -> None:
    """Change when a waiting message is due.

    Give exactly one of --delay and --deliver-at. To change the body or other parts of the message, use the command
    `change`.
    """
    if (delay is None) == (deliver_at is None):
        raise typer.BadParameter("give exactly one of --delay and --deliver-at", param_hint="--delay")
    wanted = {"delay": number_or_text(delay), "deliver_at": number_or_text(deliver_at)}
    output.show(api.call("PATCH", message_path(topic, message_id), document(wanted)))


@command(app)
def run_now(api: Api, output: Output, topic: Topic, message_id: MessageId) -> None:
    """Make a waiting message due now."""
    output.show(api.call("PATCH", message_path(topic, message_id), document({"delay": 0})))


@command(app)
def delete(
    api: Api,
    output: Output,
    topic: Topic,
    message_id: MessageId,
    *,
    release: Annotated[
        bool, typer.Option("--release", help="Also delete the stored body; only a tombstone is left.")
    ] = False,
    if_match: IfMatch = None,
) -> None:
    """Delete a message.

    If the command ends with exit code 0 before the message is due, no consumer gets the message. In a topic on direct
    release a consumer over AMQP may still get it.
    """
    query = {"release": "true" if release else None}
    headers = {"If-Match": ascii_header("--if-match", if_match)}
    output.show(api.call("DELETE", message_path(topic, message_id), query=query, headers=headers))


@command(app, "list")
def list_messages(
    api: Api,
    output: Output,
    topic: Annotated[
        str | None,
        typer.Argument(metavar="TOPIC", help="A topic, or a pattern in quotes: 'shop/*'. Default: all topics."),
    ] = None,
    *,
    state: States = None,
    due_after: DueAfter = None,
    due_before: DueBefore = None,
    label: Labels = None,
    id_prefix: IdPrefix = None,
    reason: Reason = None,
    reason_pattern: ReasonPattern = None,
    order: Annotated[str | None, typer.Option(metavar="ORDER", help="asc, or desc: the latest due first.")] = None,
    limit: Most = 100,
) -> None:
    """List messages of one topic or many, by due time."""
    query = {
        "topic": topic,
        "state": ",".join(state) if state else None,
        "due_after": due_after,
        "due_before": due_before,
        "label": [f"{name}:{value}" for name, value in pairs("--label", label).items()] if label else None,
        "id_prefix": id_prefix,
        "reason": reason,
        "reason_pattern": reason_pattern,
        "order": order,
    }
    columns = COLUMNS if topic is not None and "*" not in topic else {"topic": "topic", **COLUMNS}
    for page in api.pages("/v1/messages", query, limit):
        output.rows(page, columns)
