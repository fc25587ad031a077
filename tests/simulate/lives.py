"""Checks what each call of a script does to records, against the headers of the scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from bridge.store.scripts import SCRIPTS
from tests.life_table import FORGETTING, TABLE, Named
from tests.timelines import READ, RECORDS, misfits

_NAMED: Final = b"""
local out = {}
for at, key in ipairs(KEYS) do
  local stored = redis.call('GET', key)
  local r = stored and cmsgpack.unpack(stored)
  out[at] = r and string.format('%d %d %d %d %d %d', r[1], r[4], r[2], r[3], r[5] + r[4], r[11]) or ''
end
return table.concat(out, '\\n')
"""
"""Returns a line with the fields of `Named` for each record. It is empty where there is no record."""


class Lives:
    """The records of a simulation, as the calls left them. `command` runs a command of Redis at once. `findings`: moves
    that no header names, and records that changed between two calls.

    Before and after each call somebody has to run the command `look`."""

    def __init__(self, command: Callable[..., Any]) -> None:
        self._command = command
        self._scripts = {script.sha.encode(): script for script in SCRIPTS.values()}
        self._left: dict[bytes, Named | None] = {}
        self.findings: list[str] = []
        self.moves = 0

    def look(self, words: Sequence[bytes]) -> tuple[bytes, ...]:
        """Returns the command that looks at the records which a command may change; nothing if it may change none."""
        keys = self._records(words)
        return (b"EVAL", _NAMED, b"%d" % len(keys), *keys) if keys else ()

    def called(self, words: Sequence[bytes], before: bytes, after: bytes) -> None:
        """Judges what a command did to its records. `before`, `after`: the answers to the looks."""
        script, keys = self._scripts[words[1]].name, self._records(words)
        had, has = (dict(zip(keys, _named(looked), strict=True)) for looked in (before, after))
        for key in had:
            if self._left.get(key) not in (None, had[key]):
                self._check(FORGETTING, key, self._left[key], had[key])
            self._check(script, key, had[key], has[key])
        self._left |= has

    def emptied(self) -> None:
        """Notes that Redis has lost all records."""
        self._left.clear()

    def misfits(self) -> list[str]:
        """Returns what no header explains in the timelines of all records."""
        keys = self._command("KEYS", RECORDS)
        return [*misfits(self._command("EVAL", READ, len(keys), *keys))]

    def _records(self, words: Sequence[bytes]) -> list[bytes]:
        """The keys of the records that a command may change. A call for several messages has each further record and
        envelope behind the keys of the first message."""
        script = self._scripts.get(words[1]) if words[0] == b"EVALSHA" else None
        if script is None or not script.of_record:
            return []
        keys = words[3 : 3 + int(words[2])]
        return [keys[0], *keys[len(script.keys) :: 2]]

    def _check(self, script: str, key: bytes, before: Named | None, after: Named | None) -> None:
        try:
            self.moves += TABLE.arrow(script, before, after) is not None
        except LookupError as error:
            self.findings.append(f"life of {key.decode()}: {error}")


def _named(looked: bytes) -> list[Named | None]:
    """Reads the answer to a look."""
    return [Named(*map(int, line.split())) if line else None for line in looked.split(b"\n")]
