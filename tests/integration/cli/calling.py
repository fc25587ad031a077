"""Runs client commands against a bridge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from typer.testing import Result

from tests.command import command


@dataclass(frozen=True, slots=True)
class Calling:
    """Commands with the address of one bridge in `BRIDGE_URL`."""

    url: str

    async def run(self, *arguments: str, code: int = 0) -> Result:
        """Runs the command and checks its exit code. It writes no escape codes, as its output is no terminal."""
        ended = await command(*arguments, settings={"BRIDGE_URL": self.url})
        assert ended.exit_code == code, ended.output
        assert "\x1b" not in ended.output
        return ended

    async def one(self, *arguments: str) -> Any:
        """The object that the command prints with `--json`."""
        (found,) = await self.all(*arguments)
        return found

    async def all(self, *arguments: str) -> list[Any]:
        """The objects that the command prints with `--json`, one a line."""
        ended = await self.run(*arguments, "--json")
        return [orjson.loads(line) for line in ended.stdout.splitlines()]
