"""Checks that the files, headings and tests that the documents name exist."""

from __future__ import annotations

import re
from itertools import chain
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, PROJECT, anchors, links, rows, section

# `tests/unit/test_x.py`, `tests/unit/test_x.py::test_a`; after either in a line also `::test_b`, of the same file.
_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)?(?:::(?P<name>[A-Za-z_]\w*))?`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_link_within_the_project_has_a_target(document: Path) -> None:
    missing = []
    for target in links(document.read_text()):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        if not file.exists() or (anchor and anchor not in anchors(file.read_text())):
            missing.append(target)
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_named_test_exists(document: Path) -> None:
    missing = [
        f"{file}::{name}"
        for line in document.read_text().splitlines()
        for file, name in named_tests(line)
        if not (PROJECT / file).is_file() or (name and f"def {name}(" not in (PROJECT / file).read_text())
    ]
    assert missing == []


def named_tests(line: str) -> list[tuple[str, str | None]]:
    """The files and names of the tests that a line names. The file is "" if a name has none before it."""
    tests: list[tuple[str, str | None]] = []
    for found in _TEST.finditer(line):
        if found["file"] or found["name"]:
            tests.append((found["file"] or (tests[-1][0] if tests else ""), found["name"]))
    return tests


def test_every_promise_and_every_failure_names_a_test() -> None:
    proofs = (PROJECT / "docs" / "proofs.md").read_text()
    tables = [rows(section(proofs, title)) for title in ("Promises", "Rules of the protocol", "Limits")]
    failures = [row for part in section(proofs, "When something fails").split("\n### ")[1:] for row in rows(part)]

    assert [row[0] for row in (*chain(*tables), *failures) if not named_tests(row[-1])] == []
    assert (len(tables[0]), len(failures) >= 60) == (7, True)


def test_every_promise_has_its_proofs_under_its_name() -> None:
    promised, proved = (
        [row[0] for row in rows(section((PROJECT / "docs" / name).read_text(), "Promises"))]
        for name in ("guarantees.md", "proofs.md")
    )

    assert [re.sub(r"[\[\]]|\(.*\)", "", promise) for promise in promised] == [
        re.sub(r"[\[\]]|\(.*\)", "", promise) for promise in proved
    ]
