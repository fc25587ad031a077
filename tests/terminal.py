"""Runs `delaybridge` as a program on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

PROGRAM = str(Path(sys.executable).with_name("delaybridge"))


def on_terminal(*arguments: str, environment: Mapping[str, str] = MappingProxyType({})) -> str:
    """What the program writes on a terminal, with its escape codes."""
    inherited = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    ours, theirs = pty.openpty()
    written = b""
    with (
        open(ours, "rb", buffering=0) as terminal,
        subprocess.Popen(
            [PROGRAM, *arguments], stdout=theirs, stderr=theirs, env={**inherited, "TERM": "xterm", **environment}
        ),
    ):
        os.close(theirs)
        with suppress(OSError):  # so Linux says that the program has closed its end
            while piece := terminal.read(65_536):
                written += piece
    return written.decode()
