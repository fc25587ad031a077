"""Runs a command of `delaybridge` in this process, where starting a program would cost a second of CPU."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

import structlog
from typer.testing import CliRunner, Result

from bridge.cli.app import app


def run_command(*arguments: str, settings: Mapping[str, str] = MappingProxyType({})) -> Result:
    """Runs the command with these environment variables in addition to those of this process.

    Returns its exit code, standard output and standard error.
    """
    with _logging_restored():
        return CliRunner().invoke(app, arguments, env=settings)


@contextmanager
def _logging_restored() -> Iterator[None]:
    """Restores the logging that a command has set up, as its standard error is closed afterwards."""
    root, former = logging.getLogger(), structlog.get_config()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        structlog.configure(**former)
        root.handlers[:] = handlers
        root.setLevel(level)


async def command(*arguments: str, settings: Mapping[str, str]) -> Result:
    """Runs the command in a thread, as it has its own event loop."""
    return await asyncio.to_thread(run_command, *arguments, settings=settings)
