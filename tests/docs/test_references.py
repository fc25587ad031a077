"""What the documents point to exists: files, headings, tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, PROJECT, anchors, links

_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)(?:::(?P<name>\w+))?`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_within_the_project_leads_somewhere(document: Path) -> None:
    missing = []
    for target in links(document.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_test_that_is_named_exists(document: Path) -> None:
    named = [(found["file"], found["name"]) for found in _TEST.finditer(document.read_text())]
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not (PROJECT / file).exists() or (name and f"def {name}(" not in (PROJECT / file).read_text())
    ]
    assert missing == []


def test_the_failure_table_names_a_test_in_every_row() -> None:
    guarantees = (PROJECT / "docs" / "guarantees.md").read_text()
    table = guarantees[guarantees.index("| what fails") :].split("\n\n")[0].splitlines()[2:]
    assert [row for row in table if not _TEST.search(row)] == []
    assert len(table) >= 10
