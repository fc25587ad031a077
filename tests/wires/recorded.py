"""Plays requests that the original systems were asked, and compares the answers with those that the originals gave.

`tests/wires/conformance/` has a file for each system. `source` says how its answers are known. Rows are asked in order,
each with the state that those before it left. `answer` is the whole answer, `has` some members of it. A row with `ours`
differs on purpose: it has our answer, and `told`, a page of `docs` and the words by which it tells users.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.docs.documents import PROJECT
from tests.wires.lmstfy import Answer

FOLDER = Path(__file__).parent / "conformance"
_TYPES = {"json": "application/json; charset=utf-8"}
_ID = re.compile(r"1?[0-7][0-9A-HJKMNP-TV-Z]{25}")
_REPEATED = re.compile(r"\{(\d+) (\w)\}")


@dataclass(frozen=True, slots=True)
class Recorded:
    """One file. `rows`: requests with their answers."""

    source: str
    rows: list[dict[str, Any]]

    @classmethod
    def of(cls, system: str) -> Recorded:
        content = json.loads((FOLDER / f"{system}.json").read_text())
        return cls(content["source"], content["rows"])


@dataclass(slots=True)
class Masks:
    """What the names in a file stand for in this run. `names`: texts by the word in the file."""

    names: Mapping[str, str]
    ids: dict[str, str] = field(default_factory=dict)

    def filled(self, text: str) -> str:
        text = _REPEATED.sub(lambda found: found[2] * int(found[1]), text)
        # In one pass: a token may have the letters of a name.
        return re.sub("|".join(map(re.escape, self.names)), lambda found: self.names[found[0]], text)

    def fits(self, expected: Any, given: Any) -> bool:
        """Returns whether an answer, or a part of it, is the expected one."""
        if isinstance(expected, dict) and expected.keys() == {"ids"}:
            return isinstance(given, list) and len(given) == expected["ids"] and all(map(_is_id, given))
        if isinstance(expected, dict):
            wanted = {self.filled(name): value for name, value in expected.items()}
            return (
                isinstance(given, dict)
                and wanted.keys() == given.keys()
                and all(
                    abs(value - given[name]) <= 1 if name == "ttl" else self.fits(value, given[name])
                    for name, value in wanted.items()
                )
            )
        if isinstance(expected, list):
            return isinstance(given, list) and len(expected) == len(given) and all(map(self.fits, expected, given))
        if expected == "<ms>":
            return isinstance(given, int)
        if expected == "<ULID>":
            return _is_id(given)
        if isinstance(expected, str) and expected.startswith("<j"):
            return _is_id(given) and self.ids.setdefault(expected, given) == given
        if isinstance(expected, str):
            return bool(self.filled(expected) == given)
        return bool(expected == given)

    def has(self, expected: Any, given: Any) -> bool:
        """Returns whether an answer has these members, perhaps beside others."""
        if not isinstance(expected, dict):
            return self.fits(expected, given)
        return isinstance(given, dict) and all(self.has(value, given.get(name)) for name, value in expected.items())


def body_of(row: Mapping[str, Any]) -> bytes:
    """The body of a request. A body that the file gives by its length is an array of one text."""
    body = row.get("body", "")
    if isinstance(body, str):
        return body.encode()
    text = '["' + "x" * (body["bytes"] - 4) + '"]' if "bytes" in body else json.dumps([*range(body["numbers"])])
    return text.encode()


def difference(row: Mapping[str, Any], answer: Answer, masks: Masks) -> str | None:
    """Returns how the answer differs from that of the row; None if it is the same."""
    wanted = {**row, **row.get("ours", {})}
    content_type, location = answer.headers.get("content-type", ""), answer.headers.get("location", "")
    if answer.status != wanted["status"]:
        return f"{row['label']}: status {answer.status} in place of {wanted['status']}: {answer.body[:200]!r}"
    is_json = ("has" in wanted or wanted.get("type") == "json") and not row["ask"].startswith("HEAD")
    given = json.loads(answer.body) if is_json else answer.text
    if not (masks.has(wanted["has"], given) if "has" in wanted else masks.fits(wanted["answer"], given)):
        return f"{row['label']}: {given!r} in place of {wanted.get('has', wanted.get('answer'))!r}"
    kind = wanted.get("type", "")
    if content_type != _TYPES.get(kind, kind):
        return f"{row['label']}: content type {content_type!r}"
    if location != masks.filled(wanted.get("location", "")):
        return f"{row['label']}: location {location!r}"
    return None


def untold(rows: list[dict[str, Any]]) -> list[str]:
    """Returns the rows that differ on purpose while no page tells so."""
    return [row["label"] for row in rows if "ours" in row and not _is_told(*row["told"])]


def _is_told(page: str, words: str) -> bool:
    return " ".join(words.split()) in " ".join((PROJECT / "docs" / page).read_text().split())


def _is_id(given: Any) -> bool:
    return isinstance(given, str) and _ID.fullmatch(given) is not None
