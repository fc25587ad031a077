"""Runs `delaybridge subscriptions …`: lists, shows, sets and removes subscriptions."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api, document, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.errors import Refused
from bridge.cli.client.options import Topic, number_or_text
from bridge.cli.client.output import Output
from bridge.cli.client.topics import all_topics
from bridge.cli.groups import App, ListByDefault

app = App()
subscriptions = App(ListByDefault)
app.add_typer(
    subscriptions, name="subscriptions", help="List, show, set and remove subscriptions. Without a command: list."
)

_COLUMNS: Final = {
    "topic": "topic",
    "state": "state",
    "delivered": "delivered",
    "failed": "failed",
    "last failure": "last_failure.detail",
    "url": "url",
}
_LONGEST_FILE: Final = 4_096


@command(subscriptions, "list")
def list_subscriptions(api: Api, output: Output) -> None:
    """List the topics that have a subscription. Asks the bridge once for each topic."""
    names = [topic.value["topic"] for page in all_topics(api) for topic in page]
    found = [subscription for name in names if (subscription := _found(api, name)) is not None]
    output.rows(found, _COLUMNS)


@command(subscriptions)
def show(api: Api, output: Output, topic: Topic) -> None:
    """Show the subscription of a topic, without its secrets."""
    output.show(api.call("GET", topic_path(topic, "/subscription")))


@command(subscriptions, "set")
def set_subscription(
    api: Api,
    output: Output,
    topic: Topic,
    receiver: Annotated[str, typer.Argument(metavar="RECEIVER", help="The URL that gets the messages.")],
    *,
    secret_file: Annotated[
        str, typer.Option(metavar="FILE", help="A file with the secrets whsec_…, one a line; - is standard input.")
    ],
    concurrency: Annotated[
        int | None, typer.Option(metavar="N", help="Calls in flight at once in each process, 1 to 100.")
    ] = None,
    timeout: Annotated[
        str | None, typer.Option(metavar="DURATION", help="The longest time for one call, 1s to 5m.")
    ] = None,
    backoff: Annotated[str | None, typer.Option(metavar="STEPS", help="Before each retry: 5s,1m,15m.")] = None,
) -> None:
    """Create or replace the subscription of a topic."""
    wanted = {
        "url": receiver,
        "secret": _secrets(secret_file),
        "concurrency": concurrency,
        "timeout": number_or_text(timeout),
        "backoff": [number_or_text(step.strip()) for step in backoff.split(",")] if backoff else None,
    }
    output.show(api.call("PUT", topic_path(topic, "/subscription"), document(wanted)))


@command(subscriptions)
def remove(api: Api, output: Output, topic: Topic) -> None:
    """Remove the subscription of a topic. The topic keeps its messages."""
    output.show(api.call("DELETE", topic_path(topic, "/subscription")))


def _found(api: Api, topic: str) -> Answer | None:
    try:
        return api.call("GET", topic_path(topic, "/subscription"))
    except Refused as refused:
        if refused.status == 404:
            return None
        raise


def _secrets(path: str) -> list[str]:
    try:
        text = sys.stdin.read(_LONGEST_FILE) if path == "-" else Path(path).read_text()[:_LONGEST_FILE]
    except (OSError, ValueError) as error:
        raise typer.BadParameter(f"{path[:200]!r} can't be read: {error}", param_hint="--secret-file") from None
    return text.split()
