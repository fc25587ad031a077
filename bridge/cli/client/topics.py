"""Runs `delaybridge topics …`, `pause` and `resume`: lists topics, sets policies, removes and pauses topics."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, Final

import typer

from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api, document, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.errors import Refused
from bridge.cli.client.options import Topic, number_or_text
from bridge.cli.client.output import Output
from bridge.cli.groups import App, ListByDefault

app = App()
topics = App(ListByDefault)
app.add_typer(topics, name="topics", help="List, show, change and remove topics. Without a command: list.")

COLUMNS: Final = {
    "topic": "topic",
    "waiting": "counts.waiting",
    "overdue": "overdue",
    "ready": "counts.ready",
    "leased": "counts.leased",
    "dead": "counts.dead",
    "p99 late ms": "lateness_ms.p99",
    "paused": "policy.paused",
}
_DEFAULT: Final = "default"
_UNSET_HELP: Final = f"the word {_DEFAULT} takes the bridge's setting."


@command(topics, "list")
def list_topics(
    api: Api,
    output: Output,
    *,
    prefix: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only topics whose names begin so, such as shop/.")
    ] = None,
) -> None:
    """List the topics with their counts."""
    for page in all_topics(api, prefix):
        output.rows(page, COLUMNS)


def all_topics(api: Api, prefix: str | None = None) -> Iterator[list[Answer]]:
    """Yields all topics, a page at a time. `prefix`: only topics whose names begin with this text; None: all."""
    return api.pages("/v1/topics", {"prefix": prefix}, sys.maxsize)


@command(topics)
def show(api: Api, output: Output, topic: Topic) -> None:
    """Show a topic: counts, when its messages are due, how late they were, policy, queues."""
    output.show(api.call("GET", topic_path(topic)))


@command(topics, "set")
def set_policy(
    api: Api,
    output: Output,
    topic: Topic,
    *,
    max_retry: Annotated[
        str | None, typer.Option(metavar="N", help=f"Deliveries after the first; {_UNSET_HELP}")
    ] = None,
    ttl: Annotated[str | None, typer.Option(metavar="DURATION", help=f"Time to live after due; {_UNSET_HELP}")] = None,
    lease: Annotated[str | None, typer.Option(metavar="DURATION", help=f"Lease of a pull; {_UNSET_HELP}")] = None,
    backoff: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS",
            help=f'Before each retry: 5s,1m,15m or {{"first": "1s", "max": "10m"}}; 0: none; {_UNSET_HELP}',
        ),
    ] = None,
    release: Annotated[str | None, typer.Option(metavar="WAY", help="checked or direct.")] = None,
    keep_body_max: Annotated[
        str | None, typer.Option(metavar="BYTES", help=f"The largest body that Redis keeps; {_UNSET_HELP}")
    ] = None,
    create: Annotated[bool, typer.Option("--create", help="Create the topic if it is missing.")] = False,
) -> None:
    """Change the policy of a topic. Fields without an option stay as they are."""
    given = {
        "max_retry": max_retry,
        "ttl": ttl,
        "lease": lease,
        "backoff": backoff,
        "release": release,
        "keep_body_max": keep_body_max,
    }
    wanted = document({name: _json(name, text) for name, text in given.items() if text is not None})
    try:
        answer = api.call("PATCH", topic_path(topic), wanted)
    except Refused as refused:
        if refused.status != 404 or not create:
            raise
        answer = api.call("PUT", topic_path(topic), wanted)
    output.show(answer)


@command(topics)
def remove(
    api: Api,
    output: Output,
    topic: Topic,
    *,
    force: Annotated[bool, typer.Option("--force", help="Also delete the messages of the topic.")] = False,
) -> None:
    """Remove an empty topic with its queues."""
    output.show(api.call("DELETE", topic_path(topic), query={"force": "true" if force else None}))


@command(app)
def pause(api: Api, output: Output, topic: Topic) -> None:
    """Stop the releases and pulls of a topic.

    Prints its policy. Its messages wait until `delaybridge resume`.
    """
    output.show(api.call("POST", topic_path(topic, "/pause")))


@command(app)
def resume(api: Api, output: Output, topic: Topic) -> None:
    """End the pause of a topic."""
    output.show(api.call("POST", topic_path(topic, "/resume")))


def _json(name: str, text: str) -> bytes:
    """Returns the value of the policy's field `name` as JSON. `text`: the user's text for the field."""
    value: Any = number_or_text(text)
    if text == _DEFAULT:
        value = None
    elif name == "backoff" and text.startswith("{"):
        try:
            value = json.loads(text)
        except ValueError as error:
            raise typer.BadParameter(f"{text[:100]!r} is not JSON: {error}", param_hint="--backoff") from None
    elif name == "backoff":
        value = [number_or_text(step.strip()) for step in text.split(",")]
    return json.dumps(value).encode()
