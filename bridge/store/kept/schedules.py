"""Keeps schedules in Redis: the definition and the progress of each schedule, and the lease of the process that works
on it.

Each schedule is a hash. One sorted set holds all names. Another sorted set holds the names by the moments when the
schedules are to be planned next. A process leases a schedule before it changes the schedule or sends its ticks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from time import monotonic
from typing import Final, assert_never

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import Reply, flag, nothing, scored, several, text, texts, values, whole, wholes
from bridge.store.scripts import SCRIPTS

MOST: Final = 1_000
"""The most schedules that are kept."""

LEASE_MS: Final = 4_000
"""How long a lease of a schedule lasts. If its holder dies, another process can lease the schedule after that."""

_SPEC, _MESSAGE, _STATE = "spec", "message", "state"


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of one schedule. `now_ms`: when the lease began, in Unix ms. `until_ms`: the lease's end in Unix ms,
    which identifies the lease. `until_s`: local deadline, a moment of `monotonic()` before the lease's end. After this
    deadline the holder must send nothing."""

    name: str
    now_ms: int
    until_ms: int
    until_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredSchedule:
    """The data of one schedule in Redis, each part as JSON. `spec`: its definition. `message`: what its ticks send;
    empty if the caller did not ask for it. `state`: how far its ticks are planned."""

    name: str
    spec: bytes
    message: bytes
    state: bytes


class Saved(StrEnum):
    """The answers of `save_schedule.lua`, which saves a schedule: it is saved, the lease is lost, or there are `MOST`
    schedules."""

    SAVED = "saved"
    LOST = "lost"
    FULL = "full"


_Taken = tuple[int, int, list[str]]
"""Redis' time and the end of the leases, both in Unix ms, and the names of the leased schedules."""


class Full(Exception):
    """The schedule can't be added, because there are `MOST` schedules."""


class Lost(Exception):
    """The lease is not valid any more: it was ended, or another process has leased the schedule."""


class StoredSchedules:
    """The schedules in Redis. Every method raises StoreUnavailable if Redis does not answer. Moments are of Redis'
    clock."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def take(self, most: int) -> list[Lease]:
        """Leases up to `most` schedules that are to be planned now, and returns the leases. Leaves out schedules that
        other processes have leased."""
        began_s = monotonic()
        ((now_ms, until_ms, names),) = await self._store.run([self.take_call(most)])
        return [Lease(name, now_ms, until_ms, began_s + LEASE_MS / 1_000) for name in names]

    async def lease(self, name: str) -> Lease | None:
        """Leases one schedule, and returns the lease. None: another process has leased the schedule."""
        began_s = monotonic()
        ((now_ms, until_ms),) = await self._store.run([self.lease_call(name)])
        return Lease(name, now_ms, until_ms, began_s + LEASE_MS / 1_000) if until_ms else None

    async def leave(self, lease: Lease) -> None:
        """Ends the lease of a schedule."""
        await self._store.run([self.leave_call(lease)])

    async def save(
        self, lease: Lease, *, state: bytes, wake_ms: int | None, leave: bool, spec: bytes = b"", message: bytes = b""
    ) -> None:
        """Saves a schedule. `state`: how far its ticks are planned, as JSON. `wake_ms`: when it is to be planned next,
        in Unix ms; None: never. `leave`: ends the lease. If `spec` is empty, the stored spec and message stay.

        Raises:
            Full: there are `MOST` schedules already, and nothing is saved.
            Lost: the lease is not valid any more, because it was ended or another process has taken it; nothing is
                saved.
        """
        call = self.save_call(lease, wake_ms=wake_ms, spec=spec, message=message, state=state, leave=leave)
        (saved,) = await self._store.run([call])
        match saved:
            case Saved.SAVED:
                return
            case Saved.FULL:
                raise Full
            case Saved.LOST:
                raise Lost
            case _:
                assert_never(saved)

    async def remove(self, lease: Lease) -> None:
        """Removes a schedule.

        Raises:
            Lost: the lease is not valid any more, because it was ended or another process has taken it; nothing is
                removed.
        """
        (removed,) = await self._store.run([self.remove_call(lease)])
        if not removed:
            raise Lost

    async def get(self, name: str) -> StoredSchedule | None:
        (found,) = await self.get_many([name])
        return found

    async def get_many(self, names: Sequence[str], *, messages: bool = True) -> list[StoredSchedule | None]:
        """Returns the schedules with these names, in order; None for a name without a schedule. `messages` False:
        leaves out the messages of the schedules."""
        fields = (_SPEC, _STATE, _MESSAGE) if messages else (_SPEC, _STATE)
        found = await self._store.commands([("HMGET", self._keys.schedule(name), *fields) for name in names])
        return [
            None
            if spec is None or state is None
            else StoredSchedule(name=name, spec=spec, state=state, message=message[0] or b"" if message else b"")
            for name, (spec, state, *message) in zip(names, map(values, found), strict=True)
        ]

    async def names(self) -> list[str]:
        """Returns the names of all schedules, sorted."""
        return texts(await self._store.command("ZRANGE", self._keys.schedules, 0, -1))

    async def wakes_ms(self) -> int | None:
        """Returns when the next schedule is to be planned, in Unix ms; None: no schedule is to be planned."""
        next_one = await self._store.command("ZRANGE", self._keys.schedule_wakes, 0, 0, "WITHSCORES")
        return next((int(wakes_ms) for _, wakes_ms in scored(next_one)), None)

    async def file_is_applied(self) -> bool:
        """Whether Redis has the mark of `note_file`: the schedules of BRIDGE_SCHEDULES_FILE were stored since Redis was
        last emptied. The schedules may have been changed since."""
        return await self._store.command("GET", self._keys.schedules_file) is not None

    async def note_file(self) -> None:
        """Marks in Redis that the schedules of BRIDGE_SCHEDULES_FILE are stored. `file_is_applied` reads the mark."""
        await self._store.command("SET", self._keys.schedules_file, 1)

    def take_call(self, most: int) -> Call[_Taken]:
        names, wakes, leases, clock = (
            self._keys.schedules,
            self._keys.schedule_wakes,
            self._keys.schedule_leases,
            self._keys.schedule_clock,
        )
        return Call(SCRIPTS["take_schedules"], plain(_taken), (names, wakes, leases, clock), (most, LEASE_MS))

    def lease_call(self, name: str) -> Call[list[int]]:
        return Call(SCRIPTS["lease_schedule"], plain(wholes), (self._keys.schedule_leases,), (name, LEASE_MS))

    def leave_call(self, lease: Lease) -> Call[None]:
        return Call(
            SCRIPTS["leave_schedule"], plain(nothing), (self._keys.schedule_leases,), (lease.name, lease.until_ms)
        )

    def save_call(
        self, lease: Lease, *, wake_ms: int | None, spec: bytes, message: bytes, state: bytes, leave: bool
    ) -> Call[Saved]:
        wake = "" if wake_ms is None else wake_ms
        args = (lease.name, lease.until_ms, MOST, wake, spec, message, state, int(leave))
        return Call(SCRIPTS["save_schedule"], plain(_saved), self._all_keys(lease.name), args)

    def remove_call(self, lease: Lease) -> Call[bool]:
        return Call(SCRIPTS["remove_schedule"], plain(flag), self._all_keys(lease.name), (lease.name, lease.until_ms))

    def _all_keys(self, name: str) -> tuple[str, ...]:
        keys = self._keys
        return keys.schedules, keys.schedule_wakes, keys.schedule_leases, keys.schedule(name)


def _taken(reply: Reply) -> _Taken:
    now_ms, until_ms, *names = several(reply)
    return whole(now_ms), whole(until_ms), [text(name) for name in names]


def _saved(reply: Reply) -> Saved:
    return Saved(text(reply))
