"""Runs `delaybridge doctor`: names each fault of the settings, the servers and a running bridge, with its remedy."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Annotated, Any

import orjson
import typer
from yarl import URL

from bridge.cli import failures
from bridge.cli.client.address import address_of
from bridge.cli.client.answer import Answer
from bridge.cli.client.output import Output, line
from bridge.cli.counted import counted
from bridge.cli.doctor.checks.check import PAGE, Check, Verdict
from bridge.cli.doctor.checks.table import examine
from bridge.cli.doctor.facts.facts import Facts, gather
from bridge.cli.doctor.facts.machine import unknown_settings
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.running import url_of
from bridge.cli.groups import App
from bridge.cli.local_servers import local_servers
from bridge.cli.logs import configure
from bridge.cli.pool_option import POOL_HELP, pool_of
from bridge.model.errors import WrongSettings
from bridge.settings.pools import DEFAULT
from bridge.settings.reading import read

app = App()

_OK = "ok"
_NOT_CHECKED = "not checked"
_FAULTY = {"error", "warning"}
_HEADS = ("check", "state", "title", "found", "remedy")
_ORDER = ("error", "warning", _NOT_CHECKED, _OK)

Results = Sequence[tuple[Check, Verdict]]


@app.command()
def doctor(
    *,
    every: Annotated[bool, typer.Option("--all", help="Also list the checks that found nothing.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Also exit with 1 if a check could not be made.")] = False,
    pool: Annotated[str, typer.Option(metavar="NAME", help=POOL_HELP)] = DEFAULT,
    url: Annotated[
        str | None,
        typer.Option(
            envvar="BRIDGE_URL", metavar="URL", help="The running bridge. Default: where `serve` would listen."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON: one object a line.")] = False,
) -> None:
    """Find what is wrong with the settings, RabbitMQ, Redis and a running bridge.

    Settings come from the environment (BRIDGE_…). The command changes nothing. It lists each fault with its remedy, and
    each check that could not be made with the reason. Exit code 1: a fault was found; with --strict, also if a check
    could not be made.
    """
    results = examine(_facts(pool, url))
    rows = sorted((row for result in results for row in _rows(*result)), key=lambda row: _ORDER.index(row["state"]))
    shown = [row for row in rows if every or row["state"] != _OK]
    with Output(as_json=json) as output:
        if json:
            output.rows((Answer(orjson.dumps(row).decode()) for row in shown), {})
        else:
            _print(output, shown)
            output.note(_summary(results))
    states = {row["state"] for row in rows}
    if states & _FAULTY or (strict and _NOT_CHECKED in states):
        raise typer.Exit(failures.FAILED)


def _facts(pool: str, url: str | None) -> Facts:
    unknown = unknown_settings(os.environ)
    local = local_servers()
    there = address_of(url, None, os.environ) if url or local else None
    if local and there is not None and (port := URL(there).port) is not None:
        local["http_port"] = port
    try:
        settings = read(**local)
    except WrongSettings as error:
        return Facts(wrong=error.complaints, unknown=unknown)
    configure(settings.model_copy(update={"log_level": "error"}))
    logging.getLogger().setLevel(logging.CRITICAL)  # aiormq logs each connection that fails or is blocked
    own = pool_of(settings, pool)
    return asyncio.run(gather(own, unknown, there or url_of(own)))


def _rows(check: Check, verdict: Verdict) -> Iterator[Mapping[str, Any]]:
    """Yields a row for each fault of the check, or one row if the check found no fault or could not run."""
    if isinstance(verdict, Missing):
        yield _row(check, _NOT_CHECKED, verdict.reason)
        return
    if not verdict:
        yield _row(check, _OK, None)
    for fault in verdict:
        yield _row(check, fault.severity, fault.found, fault.remedy)


def _row(check: Check, state: str, found: str | None, remedy: str | None = None) -> Mapping[str, Any]:
    members: dict[str, Any] = {"check": check.number, "state": state, "title": check.title, "found": found}
    if state in _FAULTY:
        members |= {"cause": check.cause, "effect": check.effect, "remedy": remedy or check.remedy}
    return {**members, "docs": check.docs}


def _print(output: Output, rows: Sequence[Mapping[str, Any]]) -> None:
    if rows:
        output.table(_HEADS, [[line(row.get(head)) for head in _HEADS] for row in _together(rows)])


def _together(rows: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yields the rows, with one row in place of all checks that could not run for the same reason."""
    for (state, reason), group in groupby(rows, key=lambda row: (row["state"], row["found"])):
        if state == _NOT_CHECKED:
            yield {"state": state, "title": ", ".join(str(row["check"]) for row in group), "found": reason}
        else:
            yield from group


def _summary(results: Results) -> str:
    unmade = sum(isinstance(verdict, Missing) for _, verdict in results)
    faults = sum(len(verdict) for _, verdict in results if not isinstance(verdict, Missing))
    found = counted(faults, "faults")
    return f"{len(results)} checks: {found}, {unmade} not checked. {PAGE} explains each by its number."
