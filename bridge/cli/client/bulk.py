"""Runs `delaybridge bulk`: deletes, moves or replays all messages that match."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from bridge.cli import failures
from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api, document
from bridge.cli.client.command import command
from bridge.cli.client.operations import until_ended
from bridge.cli.client.options import (
    Delay,
    DeliverAt,
    DueAfter,
    DueBefore,
    IdPrefix,
    Labels,
    Reason,
    ReasonPattern,
    States,
    number_or_text,
    pairs,
)
from bridge.cli.client.output import Output
from bridge.cli.groups import App

app = App()


class Action(StrEnum):
    DELETE = "delete"
    MOVE = "move"
    RUN_NOW = "run-now"
    REPLAY = "replay"


@command(app)
def bulk(
    api: Api,
    output: Output,
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="delete, move, run-now or replay.")],
    topic: Annotated[
        str, typer.Argument(metavar="TOPIC", help="A topic, or a pattern in quotes: 'shop/*', '*' for all.")
    ],
    *,
    state: States = None,
    due_after: DueAfter = None,
    due_before: DueBefore = None,
    label: Labels = None,
    id_prefix: IdPrefix = None,
    reason: Reason = None,
    reason_pattern: ReasonPattern = None,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="So many at most, the first by due time.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the messages that match.")] = False,
    wait: Annotated[
        bool, typer.Option(help="Wait until the operation ends. A change of more than 1,000 messages is one.")
    ] = True,
) -> None:
    """Delete, move, run now or replay all messages that match.

    Only `move` takes --delay or --deliver-at. Exit code 1: a message could not be changed, or the operation failed or
    was cancelled.
    """
    wanted: dict[str, Any] = {
        "topic": topic,
        "state": state or None,
        "due_after": number_or_text(due_after),
        "due_before": number_or_text(due_before),
        "labels": pairs("--label", label) if label else None,
        "id_prefix": id_prefix,
        "reason": reason,
        "reason_pattern": reason_pattern,
        "delay": number_or_text(delay),
        "deliver_at": number_or_text(deliver_at),
        "max": most,
        "dry_run": dry_run,
    }
    answer = api.call("POST", f"/v1/messages:{action}", document(wanted))
    begun = answer.value["operation"]
    if begun is not None and wait:
        answer = until_ended(api, output, begun)
    output.show(answer)
    if _has_failed(answer):
        raise typer.Exit(failures.FAILED)


def _has_failed(answer: Answer) -> bool:
    return answer.value["failed"] > 0 or answer.value.get("state") in ("failed", "cancelled")
