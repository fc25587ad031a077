"""The project's documents as text, and what is in them: code blocks, tables, links."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
DOCUMENTS = sorted([PROJECT / "README.md", PROJECT / "CHANGELOG.md", *(PROJECT / "docs").rglob("*.md")])

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`\n]*`")


def text(name: str) -> str:
    """A document by its path from the project's folder."""
    return (PROJECT / name).read_text()


def blocks(document: str, language: str) -> list[str]:
    """The code of the fenced blocks in a language."""
    return [found["code"] for found in _BLOCK.finditer(document) if found["language"] == language]


def links(document: str) -> list[str]:
    """The targets of links and images, without those in code."""
    return [found["target"] for found in _LINK.finditer(_INLINE_CODE.sub("", _BLOCK.sub("", document)))]


def anchors(document: str) -> set[str]:
    """What a link may have behind its `#`: the headings as GitHub spells them."""
    headings = [found["text"].lower() for found in _HEADING.finditer(_BLOCK.sub("", document))]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def section(document: str, heading: str) -> str:
    """What stands under a heading, up to the next one of its rank.

    Raises:
        ValueError: there is no such heading.
    """
    start = document.index(f"\n## {heading}\n")
    end = document.find("\n## ", start + 1)
    return document[start : end if end >= 0 else len(document)]


def rows(document: str) -> list[list[str]]:
    """The rows of the first table, each as its cells, without the heading."""
    table: list[list[str]] = []
    for line in document.splitlines():
        if line.startswith("|"):
            table.append([cell.strip() for cell in line.strip("|").split("|")])
        elif table:
            break
    return table[2:]
