"""Runs `delaybridge send`."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Final

import typer

from bridge.cli.client.api import Api, document, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.options import Delay, DeliverAt, Topic, number_or_text, pairs
from bridge.cli.client.output import Output
from bridge.cli.groups import App
from bridge.model.values import LARGEST_BODY

app = App()

_TEXT: Final = "text/plain"
_BYTES: Final = "application/octet-stream"


@command(app)
def send(
    api: Api,
    output: Output,
    topic: Topic,
    body: Annotated[
        str, typer.Argument(metavar="BODY", help="JSON, such as '{\"order\": 7}'; - reads it from standard input.")
    ],
    *,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    message_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="The id. Default: the bridge makes one.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time to live, counted from the due moment.")
    ] = None,
    max_retry: Annotated[
        int | None, typer.Option(metavar="N", help="Failed deliveries that are retried; then it is a dead letter.")
    ] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; can be repeated.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A label for `list`, at most four; can be repeated."),
    ] = None,
    to_exchange: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The exchange that it goes to when it is due. Default: the topic's queue."),
    ] = None,
    to_routing_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="The routing key for --to-exchange. Default: empty.")
    ] = None,
    file: Annotated[bool, typer.Option("--file", help="BODY is the path of a file that holds the body.")] = False,
    text: Annotated[bool, typer.Option("--text", help=f"The body is text, not JSON: {_TEXT}.")] = False,
    binary: Annotated[bool, typer.Option("--bytes", help=f"The body is bytes, not JSON: {_BYTES}.")] = False,
    content_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="The content type, if it is another.")
    ] = None,
) -> None:
    """Send a message, due now or later.

    Prints the message. It is durable as soon as the command ends with 0. Repeat a send that failed with the same --id.
    """
    if text and binary:
        raise typer.BadParameter("give --text or --bytes, not both", param_hint="--text")
    if to_routing_key is not None and to_exchange is None:
        raise typer.BadParameter("give --to-exchange too", param_hint="--to-routing-key")
    read = _read(body, from_file=file)
    sent = api.call(
        "POST",
        topic_path(topic, "/messages"),
        document(
            {
                "id": message_id,
                "delay": number_or_text(delay),
                "deliver_at": number_or_text(deliver_at),
                "ttl": number_or_text(ttl),
                "max_retry": max_retry,
                "headers": pairs("--header", header) if header else None,
                "labels": pairs("--label", label) if label else None,
                "to": None if to_exchange is None else {"exchange": to_exchange, "routing_key": to_routing_key or ""},
                "content_type": content_type or (_TEXT if text else _BYTES if binary else None),
                "body": _text(read) if text else None if binary else _json(read),
                "body_base64": b64encode(read).decode() if binary else None,
            }
        ),
    )
    if api.replayed:
        output.note("A message with this id was sent earlier. This is that message.")
    output.show(sent)


def _read(body: str, *, from_file: bool) -> bytes:
    if from_file:
        try:
            with Path(body).open("rb") as file:
                read = file.read(LARGEST_BODY + 1)
        except OSError as error:
            raise typer.BadParameter(f"{body[:200]!r}: {error.strerror}", param_hint="BODY") from None
    else:
        read = sys.stdin.buffer.read(LARGEST_BODY + 1) if body == "-" else body.encode()
    if len(read) > LARGEST_BODY:
        raise typer.BadParameter(f"the body has more than {LARGEST_BODY} bytes", param_hint="BODY")
    return read


def _text(read: bytes) -> str:
    try:
        return read.decode()
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"the text is not UTF-8: {error.reason}; use --bytes", param_hint="BODY") from None


def _json(read: bytes) -> bytes:
    """The body as it was given, with every digit of its numbers."""
    try:
        json.loads(read)
    except (ValueError, RecursionError) as error:
        shown = read[:40].decode(errors="replace")
        raise typer.BadParameter(
            f"{shown!r} is not JSON ({error}); quote a text as '\"…\"', or add --text", param_hint="BODY"
        ) from None
    return read
