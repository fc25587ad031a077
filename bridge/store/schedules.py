"""Keeps schedules in Redis: what each asks for, how far it is planned, and the lease of whoever plans or changes it.

Each is a hash. Two sorted sets hold all names, and the names by the moment when each is to be planned next. Everybody
who changes a schedule has its lease, and so does everybody who sends its ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS

MOST: Final = 1_000
"""The schedules that are kept."""

LEASE_MS: Final = 4_000
"""How long a planner or a change has a schedule. If it dies, another one goes on after that."""

_SPEC, _MESSAGE, _STATE = "spec", "message", "state"


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of one schedule. Its end in Unix ms names it. `now_ms`: when it began. `until_s`: a moment of
    `monotonic()` at which it has not ended. After that its holder must send nothing."""

    name: str
    now_ms: int
    until_ms: int
    until_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSchedule:
    """One schedule as Redis has it, each part as JSON. `message` is empty if it was not asked for."""

    name: str
    spec: bytes
    message: bytes
    state: bytes


class Full(Exception):
    """There are `MOST` schedules."""


class Lost(Exception):
    """Somebody else has the lease."""


class StoredSchedules:
    """Every method raises StoreUnavailable. Moments are of Redis' clock."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def take(self, most: int) -> list[Lease]:
        """Leases schedules that are to be planned now."""
        began_s = monotonic()
        (answer,) = await self._store.run([self.take_call(most)])
        now_ms, until_ms, *names = answer
        return [Lease(name.decode(), now_ms, until_ms, began_s + LEASE_MS / 1_000) for name in names]

    async def lease(self, name: str) -> Lease | None:
        """Leases one schedule; None if somebody else has it."""
        began_s = monotonic()
        (answer,) = await self._store.run([self.lease_call(name)])
        now_ms, until_ms = answer
        return Lease(name, now_ms, until_ms, began_s + LEASE_MS / 1_000) if until_ms else None

    async def leave(self, lease: Lease) -> None:
        """Ends a lease."""
        await self._store.run([self.leave_call(lease)])

    async def save(
        self, lease: Lease, *, state: bytes, wake_ms: int | None, leave: bool, spec: bytes = b"", message: bytes = b""
    ) -> None:
        """Saves a schedule. `wake_ms`: when it is to be planned next; None: never. Without a spec, that stays.

        Raises:
            Full, Lost: nothing is saved.
        """
        call = self.save_call(lease, wake_ms=wake_ms, spec=spec, message=message, state=state, leave=leave)
        (verdict,) = await self._store.run([call])
        if verdict == b"full":
            raise Full
        if verdict == b"lost":
            raise Lost

    async def remove(self, lease: Lease) -> None:
        """Removes a schedule.

        Raises:
            Lost: nothing is removed.
        """
        (removed,) = await self._store.run([self.remove_call(lease)])
        if not removed:
            raise Lost

    async def get(self, name: str) -> StoredSchedule | None:
        (found,) = await self.get_many([name])
        return found

    async def get_many(self, names: Sequence[str], *, messages: bool = True) -> list[StoredSchedule | None]:
        """Returns the schedules of these names, in order; None for a name that nobody has."""
        fields = (_SPEC, _STATE, _MESSAGE) if messages else (_SPEC, _STATE)
        found = await self._store.commands([("HMGET", self._keys.schedule(name), *fields) for name in names])
        return [
            None
            if spec is None
            else StoredSchedule(name=name, spec=spec, state=state, message=message[0] if message else b"")
            for name, (spec, state, *message) in zip(names, found, strict=True)
        ]

    async def names(self) -> list[str]:
        """Returns all names, sorted."""
        return [name.decode() for name in await self._store.command("ZRANGE", self._keys.schedules, 0, -1)]

    async def wakes_ms(self) -> int | None:
        """Returns when the next schedule is to be planned; None: none is."""
        next_one = await self._store.command("ZRANGE", self._keys.schedule_wakes, 0, 0, "WITHSCORES")
        return int(float(next_one[1])) if next_one else None

    async def file_is_applied(self) -> bool:
        """Whether Redis has the schedules of a file, as far as nobody has changed them."""
        return await self._store.command("GET", self._keys.schedules_file) is not None

    async def note_file(self) -> None:
        """Notes that the schedules of a file are in Redis."""
        await self._store.command("SET", self._keys.schedules_file, 1)

    def take_call(self, most: int) -> Call:
        keys = (self._keys.schedule_wakes, self._keys.schedule_leases)
        return Call(SCRIPTS["take_schedules"], keys, (most, LEASE_MS))

    def lease_call(self, name: str) -> Call:
        return Call(SCRIPTS["lease_schedule"], (self._keys.schedule_leases,), (name, LEASE_MS))

    def leave_call(self, lease: Lease) -> Call:
        return Call(SCRIPTS["leave_schedule"], (self._keys.schedule_leases,), (lease.name, lease.until_ms))

    def save_call(
        self, lease: Lease, *, wake_ms: int | None, spec: bytes, message: bytes, state: bytes, leave: bool
    ) -> Call:
        wake = "" if wake_ms is None else wake_ms
        args = (lease.name, lease.until_ms, MOST, wake, spec, message, state, int(leave))
        return Call(SCRIPTS["save_schedule"], self._all_keys(lease.name), args)

    def remove_call(self, lease: Lease) -> Call:
        return Call(SCRIPTS["remove_schedule"], self._all_keys(lease.name), (lease.name, lease.until_ms))

    def _all_keys(self, name: str) -> tuple[str, ...]:
        keys = self._keys
        return keys.schedules, keys.schedule_wakes, keys.schedule_leases, keys.schedule(name)
