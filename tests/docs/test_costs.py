"""Checks that docs/redis.md names the cost of every script and command, and that no range grows with the backlog."""

from __future__ import annotations

import re

from bridge.store.scripts import SCRIPTS
from tests.docs.documents import PROJECT, rows, section, text

REDIS = text("docs/redis.md")
_IN_LUA = re.compile(r"redis\.call\('([A-Z]+)'")
# The command's name: the first word of a single call, or of one in a list.
_IN_PYTHON = re.compile(r'(?:\bcommand(?:_each)?\(|\[\(|, \(|pack\([\w"]*, )"([A-Z]{3,})"')


def test_every_script_is_in_the_table_of_scripts() -> None:
    listed = [name for cells in rows(section(REDIS, "Scripts")) for name in re.findall(r"`([^`]+)`", cells[0])]

    assert sorted(listed) == sorted(SCRIPTS)


def test_every_command_is_in_the_table_of_commands() -> None:
    in_lua = {name for script in SCRIPTS.values() for name in _IN_LUA.findall(script.text)}
    files = [*(PROJECT / "bridge" / "store").rglob("*.py"), *(PROJECT / "bridge" / "service").rglob("*.py")]
    in_python = {name for file in files for name in _IN_PYTHON.findall(file.read_text())}
    listed = {name for cells in rows(section(REDIS, "Commands")) for name in re.findall(r"`([A-Z ]+)`", cells[0])}

    assert {name.partition(" ")[0] for name in listed} == in_lua | in_python


def test_every_range_has_a_limit_or_reads_by_rank() -> None:
    for script in SCRIPTS.values():
        for call in re.findall(r"redis\.call\('(Z\w*RANGE\w*)'(.*)", script.text):
            assert "LIMIT" in call[1] or (
                call[0] == "ZRANGE" and re.search(r"(middle, middle|start \+ limit|, 0, 0,)", call[1])
            )
