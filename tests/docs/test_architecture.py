"""Compares the names in docs/architecture.md, and the paths in every document, with the files and functions."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.docs.documents import DOCUMENTS, PROJECT, items, section, text

ARCHITECTURE = text("docs/architecture.md")
_NAMED = re.compile(r"`((?:bridge|topology|benchmarks)/[\w/]+\.(?:py|lua))::([\w.]+)`")
_PATH = re.compile(r"`((?:bridge|topology|benchmarks|clients|deploy|tests|docs)/[\w/.-]*)(?:::[\w.]+)?`")
_WAYS = (
    "A send",
    "A release",
    "A pull",
    "An ack",
    "A message with its delay in a header",
    "A publish through the door",
    "A lmstfy publish",
)


def way(title: str) -> str:
    start = ARCHITECTURE.index(f"\n### {title}\n")
    return ARCHITECTURE[start : re.compile(r"\n##+ ").search(ARCHITECTURE, start + 5).start()]  # type: ignore[union-attr]


@cache
def names_of(file: Path) -> set[str]:
    """Returns the functions of a file, and methods as `Class.method`."""
    source = file.read_text()
    if file.suffix == ".lua":
        return set(re.findall(r"^local function (\w+)", source, re.MULTILINE))
    names: set[str] = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            functions = (inner for inner in node.body if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef))
            names |= {f"{node.name}.{function.name}" for function in functions}
    return names


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_named_function_exists(document: Path) -> None:
    missing = [
        f"{path}::{name}"
        for path, name in _NAMED.findall(document.read_text())
        if not (PROJECT / path).is_file() or name not in names_of(PROJECT / path)
    ]

    assert missing == []


@pytest.mark.parametrize("title", _WAYS)
def test_every_hop_of_a_way_names_a_function(title: str) -> None:
    hops = items(way(title))

    assert len(hops) >= 5
    assert [hop for hop in hops if not _NAMED.match(hop)] == []


def test_documented_walk_ends_at_the_line_that_decides() -> None:
    walk = section(ARCHITECTURE, "A stranger's walk")
    (line,) = re.findall(r"The line is `([^`]+)`", walk)
    script, _ = _NAMED.findall(walk)[-1]

    assert text(script).count(line) == 1


def test_glossary_has_twenty_seven_words() -> None:
    words = [re.match(r"\*\*(.+?)\*\*: \S", item) for item in items(section(ARCHITECTURE, "Glossary"))]

    assert (None in words, len(words)) == (False, 27)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(PROJECT)))
def test_every_path_in_a_document_exists(document: Path) -> None:
    paths = set(_PATH.findall(document.read_text()))

    assert sorted(path for path in paths if not (PROJECT / path).exists()) == []
