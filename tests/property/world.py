"""Holds the world of one topic: a real Redis that runs one script at a time, and the copies a broker would hold."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from struct import iter_unpack
from typing import Any, TypeVar

from bridge.model.message import Copy, CopyKind, Record, State
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import INDEXES, Keys
from bridge.store.messages.records import Records
from bridge.store.scripts import NUMBERS

Answer = TypeVar("Answer")
Found = TypeVar("Found")

BORN_MS = 4_102_444_800_000
"""The clock at the start of an example. It is later than any real clock, so no key expires while the example runs."""

_PLACE: Any = re.compile(rb"(?:^!\d{13}|\n)\d{13}([^\n]*)(?:\n|$)")  # a due moment, then the id

_TEXTS = [one.name for one in dataclasses.fields(Record) if one.type == "str" and one.name not in ("topic", "id")]

RETENTION_MS, TOMBSTONE_MS = 3_600_000, 7 * 86_400_000

# Reads all that Redis keeps of one id: the expiry of the record and of a separate envelope, the timeline, the score in
# each index, and the stored record.
_SNAPSHOT = """
local out = { redis.call('PTTL', KEYS[1]), redis.call('PTTL', KEYS[2]), '' }
for at = 3, #KEYS - 1 do out[#out + 1] = redis.call('ZSCORE', KEYS[at], ARGV[1]) or '' end
local packed = redis.call('GET', KEYS[1])
if packed then
  local r, timeline = cmsgpack.unpack(packed)
  out[3] = timeline or ''
  for _, value in ipairs(r) do out[#out + 1] = value == true and 1 or value end
end
return out
"""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """What Redis keeps of one id. `expiring`: the record's key has an expiry. `apart_expiring`: the same for the
    envelope's own key, None without one. `claimed_ms`: above 0 while no send of the message
    was confirmed or answered; for an unconfirmed record the moment of its claim. `kept`: the envelope in
    the record, or 1 if it has its own key. `born_ms`: when the record's life began; None where it does not know.
    `found_ms`: when a copy made the record that Redis had lost; None if none did. `known_ms`: when the
    id's messages were created that the record has had, the latest nine. `delivered`: the nonce of the
    unacknowledged delivery in place of the lease copy that the record names, 0 for an AMQP client's own message; None
    without one. `labels`: the entries of the id in the index of labels. `refused`: the nonces of the copies that a call
    was refused to name, as the test knows them."""

    record: Record | None
    expiring: bool
    apart_expiring: bool | None
    claimed_ms: int
    kept: bytes | int
    born_ms: int | None
    found_ms: int | None
    known_ms: tuple[int, ...]
    delivered: int | None
    timeline: bytes  # as the record has it
    scores: dict[str, int]  # by index, with `forget`; only the indexes that list the id
    labels: set[bytes]
    refused: frozenset[int]


@dataclass(kw_only=True)
class PlacedCopy:
    """A copy on the broker. `arrives_ms`: the earliest moment at which it leaves the wheel."""

    copy: Copy
    arrives_ms: int
    recorded: bool  # a script has seen the copy, so the record must outlive it
    direct: bool = False  # it goes from the wheel to the ready queue without the checkpoint
    bundle: int = 0  # the bundle that carries it; 0: none
    kind: CopyKind = CopyKind.PLAIN
    done: bool = False  # the checkpoint has handled this copy, and not yet all others of its bundle
    lease_copy: Copy | None = None  # a process has leased it, and neither acknowledged it nor published this copy

    @property
    def names(self) -> tuple[int, int]:
        return max(1, self.copy.epoch), self.copy.nonce

    def is_named_by(self, record: Record) -> bool:
        return self.names == (record.epoch, record.nonce)


@dataclass(kw_only=True)
class Broker:
    """The copies of one id, by queue."""

    wheel: list[PlacedCopy] = field(default_factory=list)
    ready: list[PlacedCopy] = field(default_factory=list)
    dead: list[PlacedCopy] = field(default_factory=list)
    taken: set[tuple[int, int]] = field(default_factory=set)  # acknowledged over AMQP without telling the bridge

    def __iter__(self) -> Iterator[PlacedCopy]:
        yield from (*self.wheel, *self.ready, *self.dead)


class World:
    """One topic on a real Redis, with a clock that the test sets."""

    _topics = count()

    def __init__(self, run: asyncio.Runner, store: Store, *, buckets: int = 1) -> None:
        self._run, self.store = run, store
        self._keys = Keys("property", buckets)
        self.topic = f"world-{next(self._topics)}"
        self.now_ms = BORN_MS
        self._nonces = count(1)
        self.bundles = count(1)
        self.brokers: dict[str, Broker] = {}
        self.refused: dict[str, frozenset[int]] = {}  # by id, since its record began
        self.stale: set[bytes] = set()  # entries of labels that lost records have left

    def nonce(self) -> int:
        return next(self._nonces)

    @property
    def records(self) -> Records:
        return Records(keys=self._keys, retention_ms=RETENTION_MS, tombstone_ms=TOMBSTONE_MS, now=str(self.now_ms))

    def broker(self, message_id: str) -> Broker:
        return self.brokers.setdefault(message_id, Broker())

    def ask(self, call: Call[Answer], *, twice: bool = False) -> list[Answer]:
        """Runs a script. `twice`: runs it again, as a caller does whose answer was lost."""
        return self.run([call, call] if twice else [call])

    def do(self, asked: Awaitable[Found]) -> Found:
        return self._run.run(_awaited(asked))

    def run(self, calls: Sequence[Call[Answer]]) -> list[Answer]:
        return self._run.run(self.store.run(calls))

    def command(self, *words: Any) -> Any:
        return self._run.run(self.store.command(*words))

    def kept(self, message_id: str) -> Kept:
        keys = self.records.keys.record(self.topic, message_id)
        ttl_ms, apart_ttl_ms, timeline, *rest = self.command("EVAL", _SNAPSHOT, len(keys), *keys, message_id)
        scores, fields = rest[: len(INDEXES) + 1], rest[len(INDEXES) + 1 :]
        record, born_ms = None, _field(fields, "BORN")
        if not fields:
            self.refused.pop(message_id, None)
        else:
            state, *numbers = fields[: int(NUMBERS["FORGET"])]
            texts = [(_field(fields, name.upper()) or b"").decode() for name in _TEXTS]
            values: Any = (State(state), *numbers, *texts)
            stored = Record(self.topic, message_id, *values)
            due_ms = stored.created_ms + stored.due_ms
            record = replace(
                stored, due_ms=due_ms, arrives_ms=due_ms + stored.arrives_ms, last_ms=due_ms + stored.last_ms
            )
            born_ms = record.created_ms if record.epoch == 1 else born_ms
        return Kept(
            record=record,
            expiring=ttl_ms >= 0,
            apart_expiring=apart_ttl_ms >= 0 if apart_ttl_ms >= -1 else None,
            claimed_ms=_field(fields, "CLAIMED") or 0,
            kept=_field(fields, "KEPT") or b"",
            born_ms=born_ms,
            found_ms=_field(fields, "FOUND"),
            known_ms=tuple(int.from_bytes(moment) for (moment,) in iter_unpack("6s", _field(fields, "KNOWN") or b"")),
            delivered=_field(fields, "DELIVERED"),
            timeline=timeline,
            scores={name: int(score) for name, score in zip((*INDEXES, "forget"), scores, strict=True) if score != b""},
            labels=self.labels(message_id),
            refused=self.refused.get(message_id, frozenset()),
        )

    def labels(self, message_id: str) -> set[bytes]:
        """The entries of the id in the index of labels, with the note of when to forget them."""
        entries = self.command("ZRANGE", self.records.keys.record(self.topic, message_id)[-1], 0, -1)
        return {entry for entry in entries if _PLACE.search(entry)[1] == message_id.encode()}

    def refuse(self, copy: Copy) -> None:
        """Notes that the record will never name this copy."""
        self.refused[copy.id] = self.refused.get(copy.id, frozenset()) | {copy.nonce}

    def lose(self, message_id: str) -> None:
        """Deletes the record's key and its envelope's, as their expiry or a loss of data does. The indexes stay."""
        self.stale |= self.labels(message_id)
        self.command("DEL", *self.records.keys.record(self.topic, message_id)[:2])

    def go_on(self, to_ms: int, forget_ms: dict[str, int]) -> set[str]:
        """Sets the clock forward and deletes the keys of ids that are to be forgotten by then. Returns these ids."""
        self.now_ms = max(self.now_ms, to_ms)
        gone = {message_id for message_id, moment in forget_ms.items() if 0 < moment <= self.now_ms}
        for message_id in gone:
            self.lose(message_id)
        return gone

    def clear(self) -> None:
        keys = self.records.keys
        self.refused.clear()
        for bucket in range(keys.buckets):
            self.command("DEL", *keys.indexes(self.topic, bucket))
        for message_id in self.brokers:
            self.command("DEL", *keys.record(self.topic, message_id)[:2])


def _field(fields: list[Any], name: str) -> Any:
    """A field of a stored record by its name in `_record.lua`; None if the record does not have it."""
    at = int(NUMBERS[name])
    return fields[at - 1] if at <= len(fields) else None


async def _awaited(asked: Awaitable[Found]) -> Found:
    return await asked


def one_of(found: Sequence[Found], at: int) -> Found:
    return found[at % len(found)]
