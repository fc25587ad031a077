"""Tests what the Makefile says of its targets."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

PROJECT = Path(__file__).parents[2]
MAKEFILE = (PROJECT / "Makefile").read_text()


def make(*arguments: str) -> str:
    """Standard output of a call of make."""
    # A make that runs these tests would pass its options and variables on.
    passed_on = ("ARGS", "FILE", "MAKEFLAGS", "MAKELEVEL")
    environment = {name: value for name, value in os.environ.items() if name not in passed_on}
    done = subprocess.run(
        ["make", *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_help_lists_every_target_that_has_a_description() -> None:
    described = re.findall(r"^([a-z-]+):.* ## (.+)$", MAKEFILE, re.MULTILINE)
    assert {"run", "test", "test-unit", "test-tools", "fmt", "all", "coverage"} <= {name for name, _ in described}
    assert [tuple(line.split(None, 1)) for line in make("help").splitlines()] == described


def test_every_file_and_folder_that_a_target_names_exists() -> None:
    named = re.findall(r"\b(?:tests|deploy)/[\w./-]+", MAKEFILE.replace("tests/a.py tests/b.py", ""))
    assert [name for name in named if not (PROJECT / name).exists()] == []
