"""Keeps in Redis the answers to requests with an idempotency key, and which of these requests are under way.

A try is one attempt of a process to answer such a request. A hash and a sorted set on one server hold the idempotency
keys of one token. Both expire `kept_ms` (of `StoredAnswers`) after the token's latest try began.
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
"""How long one try of a request holds its idempotency key. If the process dies, the next try can begin after that."""

BYTES_A_KEY: Final = 1_024
"""How many bytes of answers Redis keeps for each key that a token may have. Only their total is limited, so one answer
may be larger."""

MOST_BYTES: Final = 1024 * 1024
"""The largest answer that is kept, in bytes."""


class Progress(StrEnum):
    """The state of an idempotency key when a try wants to begin: new, unanswered, answered, under way, or of another
    request."""

    BEGUN = "begun"  # there was no earlier request
    AGAIN = "again"  # an earlier try ended without an answer, or its process died
    ANSWERED = "answered"
    UNDER_WAY = "under_way"
    OTHER = "other"  # the key belongs to another request


class Begun(NamedTuple):
    """The result of `begin`. `moment_ms`: the moment when the first request with the key began. For `UNDER_WAY`: the
    moment until which the current try may hold the key. Both are Unix ms by Redis' clock. `answer`: the kept answer,
    else empty."""

    progress: Progress
    moment_ms: int
    answer: bytes


class StoredAnswers:
    """The idempotency keys of one pool. Every method raises StoreUnavailable if Redis does not answer. `who`: the
    caller who owns the key. `key_id`: identifies the key among the keys of the caller."""

    def __init__(self, store: Store, keys: Keys, *, kept_ms: int, most: int) -> None:
        """`kept_ms`: how long a key is kept. `most`: the most keys of one caller."""
        self._store = store
        self._keys = keys
        self._kept_ms = kept_ms
        self._most = most

    async def begin(self, who: str, key_id: bytes, fingerprint: bytes, holder: bytes) -> Begun:
        """Begins a try of a request, unless another try of it is under way or has been answered. `Begun.progress` says
        which of these it is. `fingerprint`: distinguishes requests that use one key. `holder`: identifies this try."""
        (begun,) = await self._store.run([self.begin_call(who, key_id, fingerprint, holder)])
        return begun

    async def end(self, who: str, key_id: bytes, holder: bytes, *, answer: bytes = b"", forgets: bool = False) -> None:
        """Ends this try and keeps its answer. Without a kept answer, the next try begins the request again. An answer
        is not kept if it is empty or has more than `MOST_BYTES`. `forgets`: frees the key instead, so any request can
        use it."""
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
