"""Runs the bridge's scripts on a real Redis, from any stored state.

Redis holds one state at a time. Before a script runs, the state is put there if it is not there already. The clock is
an argument of the scripts. So the same script gives the same answer in the same state, and answers are remembered.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import hiredis

from bridge.store.calls import Call, answers_of
from tests.life_table import Named

SNAPSHOT: Final = """
local out = {}
for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
  local kind = redis.call('TYPE', key).ok
  if kind == 'zset' or kind == 'string' then
    local value = kind == 'zset' and redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') or redis.call('GET', key)
    local fields = {}
    if string.find(key, '/m/', 1, true) then
      local r = cmsgpack.unpack(value)
      for at = 1, 17 do fields[at] = r[at] or false end
    end
    out[#out + 1] = { key, value, redis.call('PTTL', key), fields }
  end
end
return out
"""
"""A script that answers what Redis holds under a pattern of keys, in texts and sorted sets."""

_LATER: Final = 10**9
"""The expiry of a key that is put back, in ms: no state stays so long."""

_SOON: Final = 60_000
"""Within so many ms, Redis may really expire a key before the next script runs."""

STATE, EPOCH, NONCE, CREATED, DUE, EXPIRES, ATTEMPTS, MAX_RETRY = range(8)
ARRIVES, LAST, LEASE_UNTIL, ENDED, FORGET, REASON, CLAIMED, KEPT, DELIVERED = range(8, 17)
"""The fields of a record, as `lua/_record.lua` names them."""


class Entry(NamedTuple):
    """One key of Redis. `value`: the bytes of a string, or the members of a sorted set with their scores."""

    key: bytes
    value: bytes | tuple[tuple[bytes, float], ...]
    expires: bool


class Refused(Exception):
    """A script failed."""


class Store:
    """What Redis holds. Equal contents are one object (`Stored.known`), so it is quick to compare and to hash.
    `records`: by id."""

    __slots__ = ("entries", "records", "sound")

    def __init__(self, entries: tuple[Entry, ...], records: dict[str, tuple[Any, ...]]) -> None:
        self.entries = entries
        self.records = records
        self.sound = False  # whether its indexes equal its records, once somebody has checked this


def store_of(snapshot: list[Any]) -> Store:
    """Reads the answer of `SNAPSHOT`."""
    entries = {Entry(key, _value(value), left_ms >= 0): record for key, value, left_ms, record in snapshot}
    records = {id_of(entry): _instants(record) for entry, record in entries.items() if is_record(entry)}
    return Store(tuple(sorted(entries)), records)


class Stored:
    """One Redis for the search alone: whatever it holds is replaced."""

    def __init__(self, port: int, planted: Mapping[str, str] = MappingProxyType({})) -> None:
        """`port`: on loopback. `planted`: scripts to run in place of those of these names."""
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._planted = planted
        self._reader = hiredis.Reader()
        self._known: dict[tuple[Entry, ...], Store] = {}
        self._fields: dict[bytes, tuple[Any, ...]] = {}
        self.empty = self.known(())
        self._there: Store | None = self.empty
        self._answers: dict[tuple[Store, Any], tuple[Any, Store]] = {}
        self._loaded: dict[str, bytes] = {}
        self.calls = 0  # that reached Redis
        self._send([[b"FLUSHALL"]])
        (self._snapshot,) = self._send([[b"SCRIPT", b"LOAD", SNAPSHOT.encode()]])

    def run(self, store: Store, call: Call[Any], now_ms: int) -> tuple[Any, Store]:
        """Runs one script at a moment. Returns its answer, and what Redis holds afterwards."""
        args = (str(now_ms), *call.args[1:]) if call.script.of_record else call.args
        key = (store, (call.script.name, call.keys, args))
        if (known := self._answers.get(key)) is None:
            known = self._answers[key] = self._run(store, call, args)
        return known

    def forget(self, store: Store, now_ms: int) -> Store:
        """Returns what Redis holds once the keys have expired that are to be forgotten by now."""
        gone = {message_id for message_id, record in store.records.items() if 0 < record[FORGET] <= now_ms}
        if not gone:
            return store
        kept = (b"/m/", b"/b/")
        return self.known(
            tuple(
                entry
                for entry in store.entries
                if not (any(kind in entry.key for kind in kept) and id_of(entry) in gone)
            )
        )

    def known(self, entries: tuple[Entry, ...]) -> Store:
        """Returns the one object with these contents."""
        if (store := self._known.get(entries)) is None:
            records = {
                id_of(entry): self._fields[entry.value]
                for entry in entries
                if is_record(entry) and isinstance(entry.value, bytes)
            }
            store = self._known[entries] = Store(entries, records)
        return store

    def close(self) -> None:
        self._socket.close()

    def _run(self, store: Store, call: Call[Any], args: tuple[Any, ...]) -> tuple[Any, Store]:
        self.calls += 1
        commands = [] if store is self._there else _commands(store.entries)
        name = call.script.name
        if name not in self._loaded:
            text = self._planted.get(name, call.script.text).encode()
            (self._loaded[name],) = self._send([[b"SCRIPT", b"LOAD", text]])
        words = [self._loaded[name], len(call.keys), *call.keys, *args]
        commands += [[b"EVALSHA", *map(_bytes, words)], [b"EVALSHA", self._snapshot, b"0", b"*"]]
        *_, answer, after = self._send(commands)
        if isinstance(answer, Exception):
            raise Refused(f"{name}: {answer}")
        for _, value, _, record in after:
            if record and value not in self._fields:
                self._fields[value] = _instants(record)
        found = self.known(tuple(sorted(Entry(key, _value(value), left_ms >= 0) for key, value, left_ms, _ in after)))
        self._there = None if any(0 <= left_ms < _SOON for _, _, left_ms, _ in after) else found
        (answer,) = answers_of(call, answer)
        return _frozen(answer), found

    def _send(self, commands: list[list[bytes]]) -> list[Any]:
        self._socket.sendall(b"".join(map(_packed, commands)))
        answers: list[Any] = []
        while len(answers) < len(commands):
            answer = self._reader.gets()
            if answer is False:
                if not (received := self._socket.recv(65_536)):
                    raise ConnectionError("Redis has closed the connection")
                self._reader.feed(received)
            else:
                answers.append(answer)
        return answers


def _instants(record: list[Any]) -> tuple[Any, ...]:
    """Returns a record's fields, with its moments as instants."""
    record[DUE] += record[CREATED]
    record[ARRIVES] += record[DUE]
    record[LAST] += record[DUE]
    return tuple(record)


def named(store: Store, message_id: str) -> Named | None:
    """Returns what the record of a message says; None: it has none."""
    record = store.records.get(message_id)
    if record is None:
        return None
    return Named(record[STATE], record[CREATED], record[EPOCH], record[NONCE], record[DUE], record[LEASE_UNTIL])


def is_record(entry: Entry) -> bool:
    return b"/m/" in entry.key


def id_of(entry: Entry) -> str:
    """Returns the id of a record's or an envelope's key."""
    return entry.key.rpartition(b"/")[2].decode()


def _commands(entries: tuple[Entry, ...]) -> list[list[bytes]]:
    commands = [[b"FLUSHDB"]]
    for key, value, expires in entries:
        if isinstance(value, bytes):
            commands.append([b"SET", key, value, *([b"PX", b"%d" % _LATER] if expires else [])])
        else:
            scored = [word for member, score in value for word in (b"%.0f" % score, member)]
            commands.append([b"ZADD", key, *scored])
    return commands


def _value(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    return tuple((value[at], float(value[at + 1])) for at in range(0, len(value), 2))


def _frozen(answer: Any) -> Any:
    return tuple(map(_frozen, answer)) if isinstance(answer, list) else answer


def _bytes(word: Any) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()


def _packed(words: list[bytes]) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
