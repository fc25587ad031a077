"""Runs `delaybridge send` and `change`: sends a message, and changes a waiting one."""

from __future__ import annotations

import json
import sys
from base64 import b64encode
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bridge.cli.client.api import Api, document, message_path, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.options import (
    Delay,
    DeliverAt,
    IfMatch,
    MaxRetry,
    MessageId,
    ToExchange,
    Topic,
    ToRoutingKey,
    Ttl,
    ascii_header,
    number_or_text,
    pairs,
    target,
)
from bridge.cli.client.output import Output
from bridge.cli.groups import App
from bridge.model.values import LARGEST_BODY

app = App()

_TEXT: Final = "text/plain"
_BYTES: Final = "application/octet-stream"

File = Annotated[bool, typer.Option("--file", help="BODY is the path of a file that holds the body.")]
Text = Annotated[bool, typer.Option("--text", help=f"The body is text, not JSON: {_TEXT}.")]
Bytes = Annotated[bool, typer.Option("--bytes", help=f"The body is bytes, not JSON: {_BYTES}.")]
ContentType = Annotated[str | None, typer.Option(metavar="TYPE", help="The content type, if it is another.")]


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
    ttl: Ttl = None,
    max_retry: MaxRetry = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; can be repeated.")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A label for `list`, at most four; can be repeated."),
    ] = None,
    to_exchange: ToExchange = None,
    to_routing_key: ToRoutingKey = None,
    if_exists: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="If a live message has the id: keep, replace, extend or error."),
    ] = None,
    max_wait: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="With --if-exists extend: the longest time from first send to due time."),
    ] = None,
    idempotency_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="A text of your choice. A repeated send with it has the same answer."),
    ] = None,
    file: File = False,
    text: Text = False,
    binary: Bytes = False,
    content_type: ContentType = None,
) -> None:
    """Send a message, due now or later.

    Prints the message. Exit code 0: the message is durable. If a send failed, repeat it with the same --id, or with the
    same --idempotency-key.
    """
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
                "to": target(to_exchange, to_routing_key),
                "if_exists": if_exists,
                "max_wait": number_or_text(max_wait),
                **_content(body, file=file, text=text, binary=binary, content_type=content_type),
            }
        ),
        headers={"Idempotency-Key": quoted_key(idempotency_key)},
    )
    if api.replayed:
        output.note("A message with this id was sent earlier. This is that message.")
    output.show(sent)


@command(app)
def change(
    api: Api,
    output: Output,
    topic: Topic,
    message_id: MessageId,
    body: Annotated[
        str | None,
        typer.Argument(
            metavar="[BODY]", help="The new body: JSON; - reads it from standard input.", show_default=False
        ),
    ] = None,
    *,
    delay: Delay = None,
    deliver_at: DeliverAt = None,
    ttl: Ttl = None,
    max_retry: MaxRetry = None,
    header: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header in place of all others; can be repeated.")
    ] = None,
    label: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label in place of all others; can be repeated.")
    ] = None,
    file: File = False,
    text: Text = False,
    binary: Bytes = False,
    content_type: ContentType = None,
    if_match: IfMatch = None,
) -> None:
    """Change a waiting message: its body, headers, limits, labels and time.

    Parts that are not given stay unchanged.
    """
    content = (
        {"content_type": content_type}
        if body is None
        else _content(body, file=file, text=text, binary=binary, content_type=content_type)
    )
    wanted = {
        "delay": number_or_text(delay),
        "deliver_at": number_or_text(deliver_at),
        "ttl": number_or_text(ttl),
        "max_retry": max_retry,
        "headers": pairs("--header", header) if header else None,
        "labels": pairs("--label", label) if label else None,
        **content,
    }
    headers = {"If-Match": ascii_header("--if-match", if_match)}
    output.show(api.call("PATCH", message_path(topic, message_id), document(wanted), headers=headers))


def quoted_key(key: str | None) -> str | None:
    """Returns the idempotency key as a string of RFC 9651, which the header takes. None: there is no key."""
    if ascii_header("--idempotency-key", key) is None:
        return None
    escaped = str(key).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _content(body: str, *, file: bool, text: bool, binary: bool, content_type: str | None) -> dict[str, Any]:
    if text and binary:
        raise typer.BadParameter("give --text or --bytes, not both", param_hint="--text")
    read = _read(body, from_file=file)
    return {
        "content_type": content_type or (_TEXT if text else _BYTES if binary else None),
        "body": _text(read) if text else None if binary else _json(read),
        "body_base64": b64encode(read).decode() if binary else None,
    }


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
    """Checks that the body is JSON, and returns it unchanged, with every digit of its numbers."""
    try:
        json.loads(read)
    except (ValueError, RecursionError) as error:
        shown = read[:40].decode(errors="replace")
        raise typer.BadParameter(
            f"{shown!r} is not JSON ({error}); quote a text as '\"…\"', or add --text", param_hint="BODY"
        ) from None
    return read
