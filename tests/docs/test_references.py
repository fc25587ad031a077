"""Checks that the files, headings and tests that the documents name exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, PROJECT, anchors, items, links, rows, section

# `tests/unit/test_x.py` or `tests/unit/test_x.py::test_a`; behind it in a row or an item also `::test_b`, of that file.
_TEST = re.compile(r"`(?P<file>tests/[\w/]+\.py)?(?:::(?P<name>[A-Za-z_]\w*))?`")
_BLOCK_END = re.compile(r"\n(?=[|*\n]|\d+\. )")


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
        for block in _BLOCK_END.split(document.read_text())
        for file, name in named_tests(block)
        if not (PROJECT / file).is_file() or (name and f"def {name}(" not in (PROJECT / file).read_text())
    ]
    assert missing == []


def named_tests(block: str) -> list[tuple[str, str | None]]:
    """The files and names of the tests that a row or an item names. The file is "" if a name has none before it."""
    tests: list[tuple[str, str | None]] = []
    for found in _TEST.finditer(block):
        if found["file"] or found["name"]:
            tests.append((found["file"] or (tests[-1][0] if tests else ""), found["name"]))
    return tests


def test_every_promise_and_every_failure_names_a_test() -> None:
    proofs = (PROJECT / "docs" / "proofs.md").read_text()
    promises = [row[-1] for row in rows(section(proofs, "Promises"))]
    rules, limits, failures = (
        items(section(proofs, title)) for title in ("Rules of the protocol", "Limits", "When something fails")
    )

    assert [text for text in (*promises, *rules, *limits, *failures) if not named_tests(text)] == []
    assert (len(promises), len(rules) >= 6, len(limits) >= 8, len(failures) >= 60) == (7, True, True, True)


def test_every_promise_has_its_proofs_under_its_name() -> None:
    promised, proved = (
        [row[0] for row in rows(section((PROJECT / "docs" / name).read_text(), "Promises"))]
        for name in ("guarantees.md", "proofs.md")
    )

    assert [re.sub(r"[\[\]]|\(.*\)", "", promise) for promise in promised] == [
        re.sub(r"[\[\]]|\(.*\)", "", promise) for promise in proved
    ]
