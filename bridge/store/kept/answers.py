"""Keeps in Redis what was answered to requests with an idempotency key, and which of them are under way.

The keys of one token are a hash and a sorted set, so they are on one server. Both vanish when the token has used no key
for as long as a key is kept.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import Reply, binary, nothing, several, text, whole
from bridge.store.scripts import SCRIPTS

HELD_MS: Final = 30_000
"""For how long a try has its key. A process that dies leaves the key to the next try after that."""

BYTES_A_KEY: Final = 1_024
"""The bytes of all answers to a token, for each key that it may have. A larger answer takes the room of others."""

MOST_BYTES: Final = 1024 * 1024
"""The largest answer that is kept."""


class Progress(StrEnum):
    """What became of the requests with a key before this one."""

    BEGUN = "begun"  # there was none
    AGAIN = "again"  # nobody has had an answer, and nobody works on it
    ANSWERED = "answered"
    UNDER_WAY = "under_way"
    OTHER = "other"  # the key belongs to another request


class Begun(NamedTuple):
    """`moment_ms`: by Redis' clock, when the first request with the key began; of one under way, until when it has the
    key at most."""

    progress: Progress
    moment_ms: int
    answer: bytes


class StoredAnswers:
    """Every method raises StoreUnavailable. `who`: whose keys they are. `key_id`: which of them."""

    def __init__(self, store: Store, keys: Keys, *, kept_ms: int, most: int) -> None:
        """`kept_ms`: how long a key is known. `most`: how many keys of one token."""
        self._store = store
        self._keys = keys
        self._kept_ms = kept_ms
        self._most = most

    async def begin(self, who: str, key_id: bytes, fingerprint: bytes, holder: bytes) -> Begun:
        """Begins a request, unless one is under way or was answered. `holder`: tells the tries apart."""
        (begun,) = await self._store.run([self.begin_call(who, key_id, fingerprint, holder)])
        return begun

    async def end(self, who: str, key_id: bytes, holder: bytes, *, answer: bytes = b"", forgets: bool = False) -> None:
        """Keeps the answer of this try. Without one the next try begins; with `forgets` it may be another request."""
        kept = answer if len(answer) <= MOST_BYTES else b""
        await self._store.run([self.end_call(who, key_id, holder, kept, forgets=forgets)])

    def begin_call(self, who: str, key_id: bytes, fingerprint: bytes, holder: bytes) -> Call[Begun]:
        args = (key_id, fingerprint, holder, HELD_MS, self._kept_ms, self._most)
        return Call(SCRIPTS["begin_request"], plain(_begun), self._keys.answers(who), args)

    def end_call(self, who: str, key_id: bytes, holder: bytes, answer: bytes, *, forgets: bool) -> Call[None]:
        args = (key_id, holder, answer, int(forgets), self._most * BYTES_A_KEY)
        return Call(SCRIPTS["end_request"], plain(nothing), self._keys.answers(who), args)


def _begun(reply: Reply) -> Begun:
    word, moment_ms, answer = several(reply)
    return Begun(Progress(text(word)), whole(moment_ms), binary(answer))
