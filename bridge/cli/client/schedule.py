"""Runs `delaybridge schedule …`: lists, sets, pauses and removes schedules, and sends their messages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from bridge.cli.client.api import Api, document
from bridge.cli.client.command import command
from bridge.cli.client.options import Most, ToExchange, Topic, ToRoutingKey, number_or_text, pairs, quoted, target
from bridge.cli.client.output import Output
from bridge.cli.groups import App, ListByDefault
from bridge.cli.schedule_documents import BadScheduleFile, schedule_documents

app = App(ListByDefault, help="List, show, set, apply, pause, resume, trigger and remove schedules.")

COLUMNS: Final = {
    "name": "name",
    "topic": "topic",
    "state": "state",
    "cron": "cron",
    "every ms": "every_ms",
    "last": "last_at",
    "sent": "sent",
    "missed": "missed_ticks",
}
TICKS: Final = {"at": "at", "due at": "due_at"}
_PATH: Final = "/v1/schedules"

_Name = Annotated[str, typer.Argument(metavar="NAME", help="The name of the schedule.")]


@command(app, "list")
def list_schedules(api: Api, output: Output, *, limit: Most = 100) -> None:
    """List schedules by name."""
    for page in api.pages(_PATH, {}, limit):
        output.rows(page, COLUMNS)


@command(app)
def show(api: Api, output: Output, name: _Name) -> None:
    """Show a schedule with its next five ticks."""
    output.show(api.call("GET", _path(name)))


@command(app, "next")
def next_ticks(
    api: Api,
    output: Output,
    name: _Name,
    *,
    count: Annotated[int, typer.Option(metavar="N", min=1, max=100, help="How many.")] = 5,
) -> None:
    """List the next ticks of a schedule, also of a paused one."""
    output.rows(api.call("GET", _path(name, "/next"), query={"count": count}).items(), TICKS)


@command(app, "set")
def set_schedule(
    api: Api,
    output: Output,
    name: _Name,
    topic: Topic,
    body: Annotated[str, typer.Argument(metavar="BODY", help="The message's body: JSON, such as '{\"order\": 7}'.")],
    *,
    cron: Annotated[
        str | None, typer.Option(metavar="CRON", help="When it ticks, as in crontab: '*/5 * * * *'.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Time zone of --cron, such as Europe/Vienna. Default: UTC.")
    ] = None,
    every: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How far its ticks are apart, from 1s on.")
    ] = None,
    anchor: Annotated[str | None, typer.Option(metavar="INSTANT", help="One of the ticks of --every.")] = None,
    start: Annotated[str | None, typer.Option(metavar="INSTANT", help="No tick comes before it.")] = None,
    end: Annotated[str | None, typer.Option(metavar="INSTANT", help="No tick comes after it.")] = None,
    jitter: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Each message is due up to this time after its tick."),
    ] = None,
    missed: Annotated[
        str | None,
        typer.Option(metavar="WHICH", help="Which missed ticks to send: skip (none), last or all."),
    ] = None,
    missed_max: Annotated[
        int | None, typer.Option(metavar="N", help="With --missed all: the most of them, the latest.")
    ] = None,
    overlap: Annotated[
        str | None, typer.Option(metavar="WAY", help="allow; or skip a tick whose previous one has not ended.")
    ] = None,
    ttl: Annotated[str | None, typer.Option(metavar="DURATION", help="Time to live of each message.")] = None,
    max_retry: Annotated[int | None, typer.Option(metavar="N", help="Failed deliveries that are retried.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A header; can be repeated.")] = None,
    label: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A label; can be repeated.")] = None,
    to_exchange: ToExchange = None,
    to_routing_key: ToRoutingKey = None,
    text: Annotated[bool, typer.Option("--text", help="The body is text, not JSON.")] = False,
) -> None:
    """Create or replace a schedule, which sends the body to the topic at each tick.

    Give exactly one of --cron and --every.
    """
    message = {
        "body": body if text else _json(body),
        "content_type": "text/plain" if text else None,
        "ttl": number_or_text(ttl),
        "max_retry": max_retry,
        "headers": pairs("--header", header) if header else None,
        "labels": pairs("--label", label) if label else None,
        "to": target(to_exchange, to_routing_key),
    }
    wanted = {
        "topic": topic,
        "message": document(message),
        "cron": cron,
        "timezone": timezone,
        "every": number_or_text(every),
        "anchor": number_or_text(anchor),
        "start": number_or_text(start),
        "end": number_or_text(end),
        "jitter": number_or_text(jitter),
        "missed": missed,
        "missed_max": missed_max,
        "overlap": overlap,
    }
    output.show(api.call("PUT", _path(name), document(wanted)))


@command(app)
def apply(
    api: Api,
    output: Output,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="TOML, or JSON if its name ends in .json.")],
    *,
    prune: Annotated[
        bool, typer.Option("--prune", help="Also remove schedules that the file does not have. Shows each.")
    ] = False,
) -> None:
    """Create or replace the schedules of a file. Schedules that agree with the file stay as they are.

    Ends at the first schedule that the bridge refuses; the schedules before it are applied. Repeat the command after a
    correction.
    """
    try:
        documents = schedule_documents(file)
    except BadScheduleFile as error:
        raise typer.BadParameter(str(error), param_hint="FILE") from None
    applied = []
    for name, wanted in documents.items():
        output.note(f"{name} …")
        applied.append(api.call("PUT", _path(name), json.dumps(wanted).encode()))
    output.rows(applied, COLUMNS)
    if not prune:
        return
    names = [one.value["name"] for page in api.pages(_PATH, {}, 1_000_000) for one in page]
    for name in (name for name in names if name not in documents):
        api.call("DELETE", _path(name))
        output.note(f"{name} is removed.")


@command(app)
def pause(api: Api, output: Output, name: _Name) -> None:
    """Pause a schedule. No tick fires once the command has ended with exit code 0."""
    output.show(api.call("POST", _path(name, "/pause")))


@command(app)
def resume(api: Api, output: Output, name: _Name) -> None:
    """End the pause of a schedule. The ticks from now on fire."""
    output.show(api.call("POST", _path(name, "/resume")))


@command(app)
def trigger(api: Api, output: Output, name: _Name) -> None:
    """Send the message of a schedule now."""
    output.show(api.call("POST", _path(name, "/trigger")))


@command(app)
def backfill(
    api: Api,
    output: Output,
    name: _Name,
    from_: Annotated[str, typer.Option("--from", metavar="INSTANT", help="The first moment of the period.")],
    to: Annotated[str, typer.Option(metavar="INSTANT", help="The last moment of the period, included.")],
) -> None:
    """Send the ticks of a past period. A tick that was sent before is not sent again."""
    wanted = {"from": number_or_text(from_), "to": number_or_text(to)}
    output.show(api.call("POST", _path(name, "/backfill"), document(wanted)))


@command(app)
def remove(api: Api, output: Output, name: _Name) -> None:
    """Remove a schedule. Messages of past ticks stay."""
    output.show(api.call("DELETE", _path(name)))


def _path(name: str, rest: str = "") -> str:
    return f"{_PATH}/{quoted(name)}{rest}"


def _json(body: str) -> Any:
    try:
        json.loads(body)
    except (ValueError, RecursionError) as error:
        raise typer.BadParameter(
            f"{body[:40]!r} is not JSON ({error}); quote a text as '\"…\"', or add --text", param_hint="BODY"
        ) from None
    return body.encode()
