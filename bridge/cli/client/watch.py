"""Runs `delaybridge watch`: follows the counts of topics, or one message."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import chain, count
from typing import Annotated, Final

import typer

from bridge.cli.client.answer import Answer
from bridge.cli.client.api import Api, message_path, topic_path
from bridge.cli.client.command import command
from bridge.cli.client.output import Output, cell, cells
from bridge.cli.client.topics import COLUMNS, all_topics
from bridge.cli.groups import App
from bridge.model.durations import parse_duration_ms

app = App()

_FOLLOWED: Final = ("state", "due_at", "attempts", "lease_until", "reason")
_SHORTEST_MS: Final = 100
_LONGEST_MS: Final = 3_600_000


@command(app)
def watch(
    api: Api,
    output: Output,
    topics: Annotated[list[str] | None, typer.Argument(metavar="TOPIC", help="The topics. Default: all.")] = None,
    *,
    message_id: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Follow this message of the one TOPIC until it has ended.")
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="The pause between two questions, 100ms to 1h.")
    ] = "1s",
    times: Annotated[
        int | None,
        typer.Option("--count", metavar="N", min=1, help="Ask the bridge N times, then end. Default: until Ctrl-C."),
    ] = None,
) -> None:
    """Follow topics or one message.

    Asks the bridge every second, and prints the counts of the topics. With --id it prints the message each time the
    message changes.
    """
    pause_s, looks = _pause_ms(every) / 1_000, count() if times is None else range(times)
    if message_id is None:
        for look in looks:
            _pause(pause_s if look else 0)
            _print_topics(api, output, topics or ())
    elif topics is None or len(topics) != 1:
        raise typer.BadParameter("name one topic with --id", param_hint="TOPIC")
    else:
        _follow(api, output, message_path(topics[0], message_id), _paced(looks, pause_s))


def _print_topics(api: Api, output: Output, names: Sequence[str]) -> None:
    found = [api.call("GET", topic_path(name)) for name in names] or list(chain.from_iterable(all_topics(api)))
    if output.as_json:
        output.rows(found, COLUMNS)
        return
    now = _now()
    rows = [[now, *cells(topic, COLUMNS.values())] for topic in found]
    output.redraw(["at", *COLUMNS], rows)


def _follow(api: Api, output: Output, path: str, looks: Iterator[int]) -> None:
    """Prints the message at each change, until the message has ended or `looks` is exhausted. `looks`: yields once for
    each look at the message."""
    former: Sequence[object] | None = None
    for _ in looks:
        message = api.call("GET", path)
        value = message.value
        now = [value[name] for name in _FOLLOWED]
        if now != former:
            former = now
            _print_message(output, message, now)
        if value["ended_at"] is not None:
            return


def _print_message(output: Output, message: Answer, fields: Sequence[object]) -> None:
    if output.as_json:
        output.show(message)
    else:
        output.table(["at", *(name.replace("_", " ") for name in _FOLLOWED)], [[_now(), *map(cell, fields)]])


def _paced(looks: Iterator[int] | range, pause_s: float) -> Iterator[int]:
    for look in looks:
        _pause(pause_s if look else 0)
        yield look


def _pause(pause_s: float) -> None:
    """Sleeps for a second at a time: a Ctrl-C that comes as a sleep begins takes effect when that sleep ends."""
    ends_s = time.monotonic() + pause_s
    while (left_s := ends_s - time.monotonic()) > 0:
        time.sleep(min(left_s, 1))


def _now() -> str:
    return f"{datetime.now(UTC):%H:%M:%SZ}"


def _pause_ms(text: str) -> int:
    try:
        pause_ms = parse_duration_ms(int(text) if text.isascii() and text.isdigit() else text)
    except ValueError as error:
        raise typer.BadParameter(f"{text[:100]!r} {error}", param_hint="--every") from None
    if not _SHORTEST_MS <= pause_ms <= _LONGEST_MS:
        raise typer.BadParameter(f"{text[:100]!r} must be from 100ms to 1h", param_hint="--every")
    return pause_ms
