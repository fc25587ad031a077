"""Runs a command of `delaybridge` in this process, where starting a program would cost a second of CPU."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from typer.testing import CliRunner, Result

from bridge.cli.app import app


def run_command(*arguments: str, settings: Mapping[str, str]) -> Result:
    """Runs the command with these environment variables in addition to those of this process.

    Returns its exit code, standard output and standard error.
    """
    return CliRunner().invoke(app, arguments, env=settings)


async def command(*arguments: str, settings: Mapping[str, str]) -> Result:
    """Runs the command in a thread, as it has its own event loop."""
    return await asyncio.to_thread(run_command, *arguments, settings=settings)
