"""Reads the project's documents: their code blocks, tables, links and sentences."""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent.parent
_FOLDERS = ("*.md", "docs/**/*.md", "clients/*.md", "clients/*/README.md", "clients/*/*/README.md")
DOCUMENTS = sorted(document for pattern in _FOLDERS for document in PROJECT.glob(pattern))

_BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ (?P<text>.+)$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_INLINE_CODE = re.compile(r"`[^`\n]*`")
_LINKED_TEXT = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_ITEM = re.compile(r"^\s*(?:[*-]|\d+\.) ")
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.?!][)*\"]*(?:\s+|$)")


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
    """Returns the fragments that a link may have behind its `#`: the headings as GitHub spells them."""
    headings = [found["text"].lower() for found in _HEADING.finditer(_BLOCK.sub("", document))]
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in headings}


def without_code(document: str) -> str:
    """The document without code blocks, with each piece of inline code as one word."""
    return _INLINE_CODE.sub("CODE", _BLOCK.sub("", document))


def sentences(document: str) -> list[str]:
    """The sentences of paragraphs and list items, without code blocks, drawings, tables and headings."""
    prose = _LINKED_TEXT.sub(r"\1", without_code(document))
    paragraphs: list[list[str]] = [[]]
    for line in prose.splitlines():
        if not line.strip() or line.startswith(("|", "#", "    ")):
            paragraphs.append([])
        elif _ITEM.match(line):
            paragraphs.append([_ITEM.sub("", line)])
        else:
            paragraphs[-1].append(line.strip())
    texts = (" ".join(paragraph) for paragraph in paragraphs)
    return [sentence.strip() for text in texts for sentence in _SENTENCE_END.split(text) if sentence.strip()]


def items(document: str) -> list[str]:
    """The items of lists, each as one line, without the bullet or the number."""
    found: list[list[str]] = []
    for line in document.splitlines():
        if _ITEM.match(line):
            found.append([_ITEM.sub("", line)])
        elif found and line.startswith("  ") and not line.startswith("    "):
            found[-1].append(line.strip())
    return [" ".join(lines) for lines in found]


def section(document: str, heading: str) -> str:
    """Returns the text under a heading, up to the next heading of its rank.

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
