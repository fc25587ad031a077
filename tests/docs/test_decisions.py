"""Checks the form of docs/decisions.md: dated entries, oldest first, each with context, decision and consequence."""

from __future__ import annotations

import re
from datetime import date

from tests.docs.documents import text

ENTRIES = re.split(r"^## ", text("docs/decisions.md"), flags=re.MULTILINE)[1:]
_HEADING = re.compile(r"(\d{4}-\d\d-\d\d): \S.*\n")
_PARTS = ["Context", "Decision", "Consequence"]


def test_every_entry_has_context_decision_and_consequence() -> None:
    incomplete = [
        entry.splitlines()[0] for entry in ENTRIES if re.findall(r"^\*\*(\w+)\.\*\*", entry, re.MULTILINE) != _PARTS
    ]

    assert incomplete == []


def test_entries_are_dated_and_the_oldest_is_first() -> None:
    headings = [_HEADING.match(entry) for entry in ENTRIES]

    assert None not in headings
    dates = [date.fromisoformat(heading[1]) for heading in headings if heading]
    assert dates == sorted(dates)
