"""Writes the picture of a message's life into docs/guarantees.md, from the headers of the scripts: `make docs`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from tests.docs.documents import PROJECT
from tests.life_table import LIVE, NONE, STATES, TABLE, Arrow

PAGE: Final = PROJECT / "docs" / "guarantees.md"
_NOWHERE: Final = "[*]"
_LIVE: Final = "live"
_PICTURE: Final = re.compile(r"(?<=^```mermaid\n)stateDiagram-v2\n.*?(?=^```$)", re.MULTILINE | re.DOTALL)


def page(text: str) -> str:
    """Returns the page with the present picture in place of the one that it has.

    Raises:
        LookupError: the page has no picture, or several ones.
    """
    found = _PICTURE.findall(text)
    if len(found) != 1:
        raise LookupError(f"{PAGE} has {len(found)} pictures that begin with stateDiagram-v2")
    return _PICTURE.sub(lambda _: picture(), text)


def picture() -> str:
    """Returns the picture in the language of Mermaid. A move of all three live states is one arrow of their group."""
    inside: list[str] = []
    outside: list[str] = []
    for (before, after), scripts in _edges(TABLE.drawn).items():
        labels = [f"{words} ({', '.join(names)})" if words else ", ".join(names) for words, names in scripts.items()]
        edge = f"{_NOWHERE if before == NONE else before} --> {after}: {', '.join(labels)}"
        (inside if {before, after} <= {*LIVE} else outside).append(edge)
    lines = ["stateDiagram-v2", "    direction LR", f"    state {_LIVE} {{"]
    lines += [*(f"        {edge}" for edge in inside), "    }", *(f"    {edge}" for edge in outside)]
    return "".join(f"{line}\n" for line in lines)


def _edges(arrows: Mapping[Arrow, tuple[str, ...]]) -> dict[tuple[str, str], dict[str, list[str]]]:
    """Returns the scripts of each edge of the picture by their words, in the order of the states.

    An edge from the group has also the scripts that do the same for some of its states."""
    edges: dict[tuple[str, str], dict[str, list[str]]] = {}
    of_all = {
        (arrow.after, said)
        for arrow, said in arrows.items()
        if arrow.after not in LIVE and all(arrow._replace(before=one) in arrows for one in LIVE)
    }
    for arrow, said in sorted(arrows.items(), key=_place):
        before = _LIVE if arrow.before in LIVE and (arrow.after, said) in of_all else arrow.before
        scripts = edges.setdefault((before, arrow.after), {}).setdefault(" or ".join(said), [])
        if arrow.script not in scripts:
            scripts.append(arrow.script)
    return edges


def _place(item: tuple[Arrow, tuple[str, ...]]) -> tuple[int, int, str]:
    arrow, _ = item
    return STATES.index(arrow.before), STATES.index(arrow.after), arrow.script


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
