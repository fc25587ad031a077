"""Carries out a migration's steps, and prints which steps were done, how long exchanges were missing, and which steps
are left."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict

import orjson
import typer

from bridge.cli import failures
from bridge.cli.migrate.options import Options, asked, failing
from topology.management import Management
from topology.migration.bridge import bridge
from topology.migration.carry_out import Did, Migration
from topology.migration.show import of_gap, of_letters
from topology.migration.steps import Choices, Gap, Step


def letters(options: Options, exchanges: Iterable[str]) -> Mapping[str, int] | None:
    """Returns the number of dead letters by topic. Each exchange has one topic (`Names.topic_of_exchange`). None: the
    command was given no `--url`. Ends the command if the bridge refuses or does not answer."""

    async def ask() -> Mapping[str, int] | None:
        async with bridge(options.url, options.token, options.tls) as found:
            topics = map(options.names.topic_of_exchange, exchanges)
            return None if found is None else {topic: await found.dead(topic) for topic in topics}

    return failing(lambda: asyncio.run(ask()))


def tell_letters(options: Options, letters: Mapping[str, int] | None) -> None:
    paused = map(options.names.topic_of_exchange, options.file.read(options.vhost).paused)
    for line in of_letters(letters, [*paused]):
        typer.echo(line)


def end(
    options: Options,
    choices: Choices,
    work: Callable[[Migration, Did], Awaitable[Sequence[Step]]],
    *,
    json: bool,
) -> None:
    """Runs `work`, which carries out the steps, and prints the finished and the waiting steps. Ends the command with
    exit code 1 if messages may be lost, and otherwise with exit code 5 if steps wait."""

    async def run(rabbit: Management) -> Sequence[Step]:
        async with bridge(options.url, options.token, options.tls) as releasing:
            migration = Migration(
                management=rabbit,
                names=options.names,
                vhost=options.vhost,
                file=options.file,
                wanted=options.exchanges,
                bridge=releasing,
            )
            return await work(migration, did)

    def did(step: Step, gap: Gap | None) -> None:
        done.append(step)
        if gap is not None:
            gaps.append(gap)
        if not json:
            typer.echo(f"done: {step.exchange}: {step.what}{'' if gap is None else f' {of_gap(gap)}'}")

    done: list[Step] = []
    gaps: list[Gap] = []
    steps = asked(options, run)
    left = letters(options, {step.exchange: None for step in steps})
    waiting = [step for step in steps if not step.is_done]
    # `gap.held` None: the plugin's messages could not be counted. Unless the choice is `deliver`, the operator has
    # accepted before that they may be lost.
    lost = any(gap.held or (gap.held is None and choices.held == "deliver") for gap in gaps)
    if json:
        found = {"done": [*map(as_row, done)], "waiting": [*map(as_row, waiting)], "gaps": [*map(gap_row, gaps)]}
        typer.echo(orjson.dumps({**found, "to_replay": left}))
    else:
        for step in waiting:
            typer.echo(f"waits: {step.exchange}: {step.what} {step.waits_for}")
        if not waiting:
            typer.echo("Every step is done, and messages may be lost: see above." if lost else "Every step is done.")
        tell_letters(options, left)
    if lost:
        raise typer.Exit(failures.FAILED)
    if waiting:
        raise typer.Exit(failures.FORBIDDEN_BY_STATE)


def as_row(step: Step) -> dict[str, object]:
    return {**asdict(step), "do": step.do.value}


def gap_row(gap: Gap) -> dict[str, object]:
    return {**asdict(gap), "may_have_lost": gap.may_have_lost, "probably_lost": gap.probably_lost}
