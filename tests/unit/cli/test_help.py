"""Tests the help of every command, and what the program does before a command runs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bridge.cli.arguments import before_command, behind_command
from bridge.cli.client.answer import Answer
from bridge.cli.client.output import cell
from bridge.cli.commands import COMMANDS, load
from tests.command import run_command
from tests.terminal import PROGRAM, on_terminal

SERVER = (
    "fastapi",
    "starlette",
    "uvicorn",
    "redis",
    "aio_pika",
    "aiormq",
    "bridge.service",
    "bridge.settings.settings",
)


def names(command: Any, before: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield before
    for name, inner in getattr(command, "commands", {}).items():
        yield from names(inner, (*before, name))


EVERY = [("--help",), *((*words, "--help") for name in COMMANDS for words in names(load(name), (name,)))]


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_help_of_every_command_ends_with_0_and_has_no_escape_codes(arguments: tuple[str, ...]) -> None:
    ended = run_command(*arguments)
    assert ended.exit_code == 0
    assert ended.stdout.startswith("Usage: ")
    assert "\x1b" not in ended.output


def test_help_of_a_migration_names_the_options_of_all_its_commands() -> None:
    said = " ".join(run_command("migrate", "apply", "--help").stdout.split())
    assert "migrate --help` lists, such as --management-url, --url." in said


def test_terminal_gets_colours_unless_no_color_is_set() -> None:
    assert "\x1b[" in on_terminal("--help")
    assert "\x1b" not in on_terminal("--help", environment={"NO_COLOR": "1"})


def test_client_command_imports_nothing_of_a_bridge() -> None:
    program = f"""
import sys
from bridge.cli.app import app
from bridge.cli.commands import COMMANDS, load
for name, (module, _) in COMMANDS.items():
    if module.startswith("client."):
        load(name)
print(*(name for name in {SERVER!r} if name in sys.modules))
"""
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "\n"


def test_shell_completes_commands_and_options() -> None:
    environment = {**os.environ, "_DELAYBRIDGE_COMPLETE": "complete_bash"}

    def completed(words: str) -> list[str]:
        line = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        return subprocess.check_output([PROGRAM], env=environment | line, text=True).split()

    assert completed("delaybridge to") == ["topics", "topology", "token"]
    assert completed("delaybridge send --del") == ["--delay", "--deliver-at"]
    assert completed("delaybridge topics s") == ["show", "set"]


@pytest.mark.parametrize("name", ["BRIDGE_TOKN", "BRIDGE_ULR"])
def test_misspelt_variable_of_the_client_stops_a_command(name: str) -> None:
    ended = run_command("get", "a", "b", settings={name: "x"})
    assert ended.exit_code == 2
    assert f"{name}: is unknown; the nearest setting is BRIDGE_" in ended.stderr


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["--json", "get", "a"], ["get", "--json", "a"]),
        (["--url", "u", "--token=t", "get"], ["get", "--url", "u", "--token=t"]),
        (["get", "--json"], ["get", "--json"]),
        (["--json", "--help"], ["--help"]),
        (["--json"], []),
        ([], []),
    ],
)
def test_shared_options_move_behind_the_name(given: list[str], passed: list[str]) -> None:
    assert behind_command(given) == passed


@pytest.mark.parametrize(
    ("given", "passed"),
    [([], ["list"]), (["--json"], ["list", "--json"]), (["show", "a"], ["show", "a"]), (["--help"], ["--help"])],
)
def test_group_with_a_default_runs_it_without_a_name(given: list[str], passed: list[str]) -> None:
    assert behind_command(given, "list") == passed


def test_options_of_a_group_move_before_the_name() -> None:
    given = ["apply", "--topic", "a", "--slots", "--prefix=p", "--flag", "--", "--topic", "b"]
    moved = before_command(given, {"--topic": False, "--prefix": False, "--flag": True})
    assert moved == ["--topic", "a", "--prefix=p", "--flag", "apply", "--slots", "--", "--topic", "b"]


def test_cell_has_no_control_characters_and_a_bounded_length() -> None:
    assert cell("a\x1b[2J\n\x9b\u202e") == r"a\x1b[2J\n\x9b\u202e"
    assert len(cell("x" * 1_000)) == 60


def test_items_are_read_as_they_were_written() -> None:
    answer = Answer('{"items": [ {"n":1.10}, {"s":"],{"} ],"next_cursor":null}')
    assert [item.raw for item in answer.items()] == ['{"n":1.10}', '{"s":"],{"}']
    assert Answer('{"messages":[]}').items() == []
