"""Runs Node's programs, and installs packages from npm by their lock file."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

OLDEST_NODE: Final = 20
LONGEST_RUN_S: Final = 180.0
_FEW_RETRIES = ("--fetch-retries=2", "--fetch-retry-mintimeout=500")
_OPTIONS: Final = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", *_FEW_RETRIES)
_AWAY = re.compile(r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT")


class Failed(Exception):
    """A program ended with another code than 0, or did not end. The text is its output."""


def why_no_node() -> str | None:
    """What is missing to run Node's programs, with the remedy; None if nothing is."""
    missing = [program for program in ("node", "npm", "npx") if shutil.which(program) is None]
    if missing:
        return f"{' and '.join(missing)} missing: run sh deploy/setup.sh clients, which installs Node with npm"
    version = run("node", "--version", folder=Path()).strip()
    if int(version.removeprefix("v").split(".")[0]) < OLDEST_NODE:
        return f"node is {version}, and the client needs {OLDEST_NODE} or later"
    return None


@cache
def install(folder: Path) -> str | None:
    """Makes `node_modules` of the folder as its lock file says. Returns why that is impossible here, else None.

    Raises:
        Failed: npm could reach its registry, and failed.
    """
    made_from = folder / "node_modules" / ".made-from"
    with (folder / "package-lock.json").open("rb") as wanted_packages:
        # Tests of several processes use one folder, and a second `npm ci` removes what the first one unpacks.
        fcntl.flock(wanted_packages, fcntl.LOCK_EX)
        wanted = hashlib.sha256(wanted_packages.read()).hexdigest()
        if made_from.exists() and made_from.read_text() == wanted:
            return None
        try:
            run("npm", "ci", *_OPTIONS, folder=folder)
        except Failed as failure:
            if away := _AWAY.search(str(failure)):
                return (
                    f"npm's registry is away ({away[0]}), so the packages of {folder.name} can't be installed: npm ci"
                )
            raise
        made_from.write_text(wanted)
    return None


def needs_node(folder: Path) -> None:
    """Installs the packages of the folder. The test is skipped, and says what is missing, where that is impossible."""
    if why := why_no_node() or install(folder):
        pytest.skip(why)


def run(*command: str, folder: Path, environment: Mapping[str, str] | None = None) -> str:
    """Runs the command in the folder, and returns its output. `environment`: added to this process's.

    Raises:
        Failed: the command ended with another code than 0, or did not end in time.
    """
    program = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, "NO_COLOR": "1", **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        output, _ = program.communicate(timeout=LONGEST_RUN_S)
    except subprocess.TimeoutExpired:
        os.killpg(program.pid, signal.SIGKILL)  # the programs that it has started too
        output, _ = program.communicate()
        raise Failed(f"{' '.join(command)} did not end in {LONGEST_RUN_S} s:\n{output}") from None
    if program.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {program.returncode}:\n{output}")
    return output
