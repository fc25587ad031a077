"""Runs `delaybridge backup` and `delaybridge restore`: writes the state of a pool to a file, and restores it."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Final

import orjson
import typer

from bridge.backup.lines import BadBackup
from bridge.backup.restoring import Restore
from bridge.backup.taking import Backup
from bridge.cli import failures
from bridge.cli.counted import counted
from bridge.cli.groups import App
from bridge.cli.logs import configure
from bridge.cli.pool_option import POOL_HELP, pool_of, read_settings, settings_of
from bridge.cli.progress import progress
from bridge.cli.record import record
from bridge.cli.unavailable import end_unavailable
from bridge.model.action import ActionName
from bridge.model.errors import BrokerUnfit, StoreUnfit, Unavailable
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings

app = App()

_File = Annotated[Path, typer.Argument(metavar="FILE", help="The file; `-` for standard input or output.")]
_Json = Annotated[bool, typer.Option("--json", help="Print the counts as JSON, on standard error beside a backup.")]
_Pool = Annotated[str, typer.Option(metavar="NAME", help=POOL_HELP)]
_STANDARD: Final = Path("-")


@app.command()
def backup(file: _File, *, json: _Json = False, pool: _Pool = DEFAULT) -> None:
    """Write the messages, policies, schedules, subscriptions and tokens of a pool to a file.

    Each line of the file is one JSON object. The command reads only from Redis, and the bridge may keep running.
    Settings come from the environment (BRIDGE_…). The file has lmstfy's tokens and receivers' secrets in clear text; of
    the bridge's own tokens it has hashes. The file lacks each body that Redis does not keep. Exit code 1: the
    body of a live message or of a dead letter is missing, or Redis did not answer.
    """
    settings = settings_of(pool)
    configure(settings)  # otherwise warnings would be printed into the output
    try:
        with _opened(file, "backup", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as output:
            counts = asyncio.run(_back_up(settings, pool, output))
    except Unavailable as error:
        end_unavailable("backup", error, settings)
    _print("backup", counts, as_json=json)
    _end_without_bodies("backup", counts)


@app.command()
def restore(file: _File, *, json: _Json = False, pool: _Pool = DEFAULT) -> None:
    """Restore a backup: each waiting message waits again until it is due.

    Each dead letter is in its dead-letter queue again. The command changes no message that already exists, so it can be
    repeated. Settings come from the environment (BRIDGE_…). Exit code 1: the file is damaged, a body is missing, or a
    server did not answer.
    """
    whole = read_settings()
    settings = pool_of(whole, pool)
    configure(settings)
    counts: Counter[str] = Counter()
    stopped: BadBackup | Unavailable | None = None
    try:
        with _opened(file, "restore", os.O_RDONLY) as lines:
            asyncio.run(_restore(settings, pool, lines, counts))
    except (BadBackup, Unavailable) as error:
        stopped = error
    if stopped is None or counts["messages"]:
        try:
            asyncio.run(_record(whole, counts))
        except Unavailable as error:
            stopped = stopped or error
        _print("restore", counts, as_json=json)
    match stopped:
        case BadBackup():
            failures.end("restore", f"{file}: {stopped}")
        case Unavailable():
            end_unavailable("restore", stopped, settings)
        case None:
            _end_without_bodies("restore", counts)


async def _back_up(settings: Settings, pool: str, output: BinaryIO) -> Counter[str]:
    service = Service(settings, pool=pool)
    taken = Backup(service)
    try:
        with progress("messages", lambda: taken.counts["messages"]):
            await _write(taken.lines(), output)
    finally:
        await service.close()
    return taken.counts


async def _write(lines: AsyncIterator[bytes], output: BinaryIO) -> None:
    async for line in lines:
        output.write(line)
    output.flush()


async def _restore(settings: Settings, pool: str, lines: BinaryIO, counts: Counter[str]) -> None:
    """Restores the lines. Adds the counts of `Restore` to `counts`, also if an error ends the restore."""
    service = Service(settings, pool=pool)
    restoring = Restore(service)
    try:
        await service.connect()
        with progress("messages", lambda: restoring.counts["messages"] + restoring.counts["kept"]):
            await restoring.run(lines)
    except (BrokerUnfit, StoreUnfit) as error:
        failures.end("restore", str(error), failures.UNFIT)
    finally:
        counts.update(restoring.counts)
        await service.close()


async def _record(settings: Settings, counts: Counter[str]) -> None:
    service = Service(settings)  # the default pool's service, as that pool records the actions on all pools
    try:
        await record(service, ActionName.RESTORE, count=counts["messages"])
    finally:
        await service.close()


@contextmanager
def _opened(file: Path, command: str, flags: int) -> Iterator[BinaryIO]:
    """Opens the file. Only its owner may read a new file: it holds bodies, tokens and secrets. `flags`: for `os.open`.
    `command`: the command's name, for errors."""
    if file == _STANDARD:
        yield sys.stdin.buffer if flags == os.O_RDONLY else sys.stdout.buffer
        return
    try:
        opened = os.fdopen(os.open(file, flags, 0o600), "rb" if flags == os.O_RDONLY else "wb")
    except OSError as error:
        failures.end(command, f"{file}: {error.strerror}", failures.WRONG)
    with opened:
        yield opened


def _print(command: str, counts: Counter[str], *, as_json: bool) -> None:
    text = orjson.dumps(counts).decode() if as_json else ", ".join(counted(n, name) for name, n in counts.items())
    typer.echo(text if as_json else f"{text}.".replace("_", " "), err=command == "backup")


def _end_without_bodies(command: str, counts: Counter[str]) -> None:
    """Ends the command with code 1 if bodies are missing."""
    if counts["without_body"]:
        lost = counted(counts["without_body"], "messages")
        failures.end(command, f"{lost} without a body in Redis can't be restored")
