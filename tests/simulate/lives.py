"""Checks what each call of a script does to records, against the headers of the scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from bridge.store.scripts import SCRIPTS
from tests.life_table import FORGETTING, TABLE, Named
from tests.timelines import READ, RECORDS, misfits

_NAMED: Final = """
local out = {}
for at, key in ipairs(KEYS) do
  local stored = redis.call('GET', key)
  local r = stored and cmsgpack.unpack(stored)
  out[at] = r and { r[1], r[4], r[2], r[3], r[5] + r[4], r[11] } or {}
end
return out
"""
"""Returns the fields of `Named` for each record."""


class Lives:
    """The records of a simulation, as the calls left them. `command` runs a command of Redis at once. `findings`: moves
    that no header names, and records that changed between two calls."""

    def __init__(self, command: Callable[..., Any]) -> None:
        self._command = command
        self._scripts = {script.sha.encode(): script for script in SCRIPTS.values()}
        self._left: dict[bytes, Named | None] = {}
        self._before: dict[bytes, Named | None] = {}
        self.findings: list[str] = []
        self.moves = 0

    def before(self, words: Sequence[bytes]) -> None:
        """Looks at the records of a command that is about to run."""
        self._before = self._named(self._records(words))
        for key, record in self._before.items():
            if self._left.get(key) not in (None, record):
                self._check(FORGETTING, key, self._left[key], record)

    def after(self, words: Sequence[bytes]) -> None:
        """Looks at the records again, and judges what the command did to them."""
        if not self._before:
            return
        script = self._scripts[words[1]].name
        left = self._named([*self._before])
        for key, record in left.items():
            self._check(script, key, self._before[key], record)
        self._left |= left

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

    def _named(self, keys: Sequence[bytes]) -> dict[bytes, Named | None]:
        if not keys:
            return {}
        found = self._command("EVAL", _NAMED, len(keys), *keys)
        return {key: Named(*fields) if fields else None for key, fields in zip(keys, found, strict=True)}

    def _check(self, script: str, key: bytes, before: Named | None, after: Named | None) -> None:
        try:
            self.moves += TABLE.arrow(script, before, after) is not None
        except LookupError as error:
            self.findings.append(f"life of {key.decode()}: {error}")
