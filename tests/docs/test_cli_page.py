"""Compares docs/cli.md with the commands."""

from __future__ import annotations

import pytest

from bridge.cli.commands import COMMANDS, load
from tests.docs.cli_page import PAGE, page


def test_page_of_the_command_line_is_the_one_that_make_docs_writes() -> None:
    assert PAGE.read_text() == page(), "`make docs` writes it again"


@pytest.mark.parametrize("name", COMMANDS)
def test_summary_in_the_list_of_commands_begins_the_help_of_the_command(name: str) -> None:
    assert load(name).help.startswith(COMMANDS[name][1])
