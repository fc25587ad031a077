"""Reads the answers of `page.lua` and `labelled.lua`: a part of one index."""

from __future__ import annotations

from typing import Final, NamedTuple

from bridge.model.message import State
from bridge.store.replies import Reply, several, text, whole

_STATES: Final = tuple(State)

Entry = tuple[int, str]
"""A due moment in Unix ms and an id. Entries are sorted by moment, then id. Ids are ASCII, so text and bytes sort
alike."""


class Part(NamedTuple):
    """The answer of lua/page.lua or lua/labelled.lua. `looked`: how many entries the script looked at. `last`: the last
    entry that it looked at. `entries`: due moment, id and state of each entry that matches."""

    looked: int
    last: Entry
    entries: list[tuple[int, str, State]]


def read_part(reply: Reply) -> Part:
    """Reads the answer of lua/page.lua or lua/labelled.lua."""
    looked, last_due_ms, last_id, *found = several(reply)
    triples = zip(found[1::3], found[::3], found[2::3], strict=True)
    entries = [(whole(due_ms), text(message_id), _STATES[whole(code)]) for due_ms, message_id, code in triples]
    return Part(whole(looked), (whole(last_due_ms), text(last_id)), entries)
