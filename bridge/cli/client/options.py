"""Holds the arguments and options that several client commands share."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic: a name, or namespace/name.")]
MessageId = Annotated[str, typer.Argument(metavar="ID", help="The id of the message.")]
Delay = Annotated[str | None, typer.Option(metavar="DURATION", help="Due so long from now, such as 90s, 15m or 1h30m.")]
DeliverAt = Annotated[
    str | None, typer.Option(metavar="INSTANT", help="Due at this moment, such as 2026-12-24T18:00:00+01:00.")
]
Ttl = Annotated[str | None, typer.Option(metavar="DURATION", help="Time to live, counted from the due moment.")]
MaxRetry = Annotated[
    int | None, typer.Option(metavar="N", help="Failed deliveries that are retried; then it is a dead letter.")
]
IfMatch = Annotated[
    str | None, typer.Option(metavar="ETAG", help="Only if the message still has this ETag, which `get --etag` prints.")
]
Receipt = Annotated[
    str | None, typer.Option(metavar="RECEIPT", help="The receipt of the pull that leased the message.")
]
States = Annotated[
    list[str] | None,
    typer.Option("--state", metavar="STATE", help="Only this state, such as waiting; can be repeated."),
]
DueAfter = Annotated[str | None, typer.Option(metavar="INSTANT", help="Only those due after this moment.")]
DueBefore = Annotated[str | None, typer.Option(metavar="INSTANT", help="Only those due before this moment.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME=VALUE", help="Only those with this label; can be repeated."),
]
IdPrefix = Annotated[str | None, typer.Option(metavar="TEXT", help="Only those whose ids begin so.")]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Only expired and dead ones with exactly this reason.")
]
ReasonPattern = Annotated[
    str | None,
    typer.Option("--reason-pattern", metavar="TEXT", help="As --reason, but * is any text: 'card *'."),
]
ToExchange = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The exchange that it goes to when it is due. Default: the topic's queue."),
]
ToRoutingKey = Annotated[
    str | None, typer.Option(metavar="KEY", help="The routing key for --to-exchange. Default: empty.")
]
Most = Annotated[int, typer.Option("--limit", metavar="N", min=1, help="The most that are listed.")]


def number_or_text(text: str | None) -> int | str | None:
    """Returns a duration or instant for a request: digits alone become a number of milliseconds, other text stays."""
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else text


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """Returns the values of an option that a user repeats as NAME=VALUE, by their names. `option`: the option's own
    name, for errors. `given`: the texts that the user gave.

    Raises:
        BadParameter: a text has no `=`.
    """
    for one in given:
        if "=" not in one:
            raise typer.BadParameter(f"{one[:100]!r} must be NAME=VALUE", param_hint=option)
    return {name: value for name, _, value in (one.partition("=") for one in given)}


def target(to_exchange: str | None, to_routing_key: str | None) -> dict[str, str] | None:
    """Returns the target that the options name. None: they name none, and the message goes to the topic's ready queue.

    Raises:
        BadParameter: there is a routing key, and no exchange.
    """
    if to_exchange is None:
        if to_routing_key is not None:
            raise typer.BadParameter("give --to-exchange too", param_hint="--to-routing-key")
        return None
    return {"exchange": to_exchange, "routing_key": to_routing_key or ""}


def ascii_header(option: str, text: str | None) -> str | None:
    """Checks that an option's value can be the value of a header, and returns it. None: the option is not given.

    Raises:
        BadParameter: the value is not printable ASCII.
    """
    if text is not None and not (text.isascii() and text.isprintable()):
        raise typer.BadParameter(f"{text[:100]!r} must be printable ASCII", param_hint=option)
    return text


def quoted(message_id: str) -> str:
    """Returns the id percent-encoded, as one segment of a path."""
    return quote(message_id, safe="")
