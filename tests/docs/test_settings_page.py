"""Compares the page and the examples of the settings with the settings."""

from __future__ import annotations

import re
import tomllib

import pytest

from bridge.settings.settings import Settings
from tests.docs.documents import PROJECT, rows, section, text
from tests.docs.settings_page import ENV_EXAMPLE, TOML_EXAMPLE, files
from tests.read_settings import read_in


@pytest.mark.parametrize("path", files())
def test_file_is_the_one_that_make_docs_writes(path: str) -> None:
    assert (PROJECT / path).read_text() == files()[path], "`make docs` writes it again"


def test_every_setting_has_a_unit_and_a_meaning() -> None:
    table = rows(section(text("docs/operating/settings.md"), "Table"))
    assert [cells[0] for cells in table] == [f"`BRIDGE_{name.upper()}`" for name in Settings.model_fields]
    assert [cells for cells in table if not all(cells)] == []


def test_examples_give_every_setting_its_default() -> None:
    variables = dict(re.findall(r"^#(\w+)=(.+)$", ENV_EXAMPLE.read_text(), re.MULTILINE))
    keys = tomllib.loads("\n".join(re.findall(r"^#(\w+ = .+)$", TOML_EXAMPLE.read_text(), re.MULTILINE)))
    given = {name for name, field in Settings.model_fields.items() if field.default is not None}
    assert (set(variables), set(keys)) == ({f"BRIDGE_{name.upper()}" for name in given}, given)
    assert read_in(variables) == read_in({}) == Settings.model_validate(keys)
