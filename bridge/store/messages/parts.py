"""Reads what `page.lua` and `labelled.lua` answer: a part of one index."""

from __future__ import annotations

from typing import Final, NamedTuple

from bridge.model.message import State
from bridge.store.replies import Reply, several, text, whole

_STATES: Final = tuple(State)

Entry = tuple[int, str]
"""A due moment in Unix ms and an id. Entries are sorted by both. Ids are ASCII, so text and bytes sort alike."""


class Part(NamedTuple):
    """The answer of lua/page.lua or lua/labelled.lua. `looked`: the number of entries it looked at. `last`: the last of
    them. `entries`: due moments, ids and states of those that match."""

    looked: int
    last: Entry
    entries: list[tuple[int, str, State]]


def read_part(reply: Reply) -> Part:
    """Reads the answer of one of these scripts."""
    looked, last_due_ms, last_id, *found = several(reply)
    triples = zip(found[1::3], found[::3], found[2::3], strict=True)
    entries = [(whole(due_ms), text(message_id), _STATES[whole(code)]) for due_ms, message_id, code in triples]
    return Part(whole(looked), (whole(last_due_ms), text(last_id)), entries)
