"""Keeps bulk operations in Redis: what is asked, how far it is done, and the lease of the process that works on it.

Each is a hash. Two sorted sets hold all ids by their moments, and the ids of running ones by the ends of their leases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS

MOST: Final = 200
"""The operations that are kept. A new one removes the oldest that has ended."""
MOST_RUNNING: Final = 20
"""The operations that run at once."""
LEASE_MS: Final = 15_000
"""For how long a process has an operation after each portion. Then another one takes over."""

_SHOWN: Final = ("asked", "matched", "state", "created_ms", "ended_ms", "progress")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """One operation as Redis has it. `asked`, `progress` and `work` are JSON; empty: none. `work` is set only for an
    operation that was taken. `ended_ms`: 0 while it runs."""

    id: str
    asked: bytes
    matched: int
    state: str
    created_ms: int
    ended_ms: int
    progress: bytes
    work: bytes = b""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of one operation. Its end in Unix ms names it."""

    operation_id: str
    until_ms: int


class StoredOperations:
    """Every method raises StoreUnavailable. Moments are of Redis' clock."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def begin(self, operation_id: str, asked: bytes, matched: int) -> bool:
        """Keeps a new operation. Returns False if too many run."""
        (began_ms,) = await self._store.run([self.begin_call(operation_id, asked, matched)])
        return bool(began_ms)

    async def take(self, lease_ms: int = LEASE_MS) -> Lease | None:
        """Leases an operation that no process works on; None if there is none."""
        (taken,) = await self._store.run([self.take_call(lease_ms)])
        return None if taken is None else Lease(taken[0].decode(), int(taken[1]))

    async def save(self, lease: Lease, *, progress: bytes, work: bytes, ended: str = "") -> Lease | None:
        """Saves how far the holder of the lease has come, and extends the lease. `ended`: the state, at the end. None:
        the operation has ended, was cancelled, or another process has taken over."""
        (until_ms,) = await self._store.run([self.save_call(lease, progress, work, ended)])
        return Lease(lease.operation_id, int(until_ms)) if until_ms else None

    async def cancel(self, operation_id: str) -> bool:
        """Cancels it, if it runs. Returns whether there is such an operation."""
        (known,) = await self._store.run([self.cancel_call(operation_id)])
        return bool(known)

    async def get(self, operation_id: str, *, work: bool = False) -> Stored | None:
        """Returns the operation, and its work if that is wanted."""
        fields = (*_SHOWN, "work") if work else _SHOWN
        return _stored(operation_id, await self._store.command("HMGET", self._keys.operation(operation_id), *fields))

    async def all(self) -> list[Stored]:
        """Returns all operations, the newest first."""
        found = await self._store.command("ZRANGE", self._keys.operations, 0, -1, "REV")
        ids = [operation_id.decode() for operation_id in found]
        values = await self._store.commands([("HMGET", self._keys.operation(one), *_SHOWN) for one in ids])
        stored = (_stored(operation_id, fields) for operation_id, fields in zip(ids, values, strict=True))
        return [operation for operation in stored if operation is not None]

    def begin_call(self, operation_id: str, asked: bytes, matched: int) -> Call:
        keys = (self._keys.operations, self._keys.operation_leases, self._keys.operation(operation_id))
        return Call(SCRIPTS["begin_operation"], keys, (operation_id, asked, matched, MOST, MOST_RUNNING))

    def take_call(self, lease_ms: int) -> Call:
        return Call(SCRIPTS["take_operation"], (self._keys.operation_leases,), (lease_ms,))

    def save_call(self, lease: Lease, progress: bytes, work: bytes, ended: str) -> Call:
        args = (lease.operation_id, lease.until_ms, LEASE_MS, progress, work, ended)
        return Call(SCRIPTS["save_operation"], self._lease_keys(lease.operation_id), args)

    def cancel_call(self, operation_id: str) -> Call:
        return Call(SCRIPTS["cancel_operation"], self._lease_keys(operation_id), (operation_id,))

    def _lease_keys(self, operation_id: str) -> tuple[str, str]:
        return self._keys.operation_leases, self._keys.operation(operation_id)


def _stored(operation_id: str, values: Sequence[Any]) -> Stored | None:
    asked, matched, state, created_ms, ended_ms, progress, *work = values
    if asked is None:
        return None
    return Stored(
        id=operation_id,
        asked=asked,
        matched=int(matched),
        state=state.decode(),
        created_ms=int(created_ms),
        ended_ms=int(ended_ms or 0),
        progress=progress or b"",
        work=work[0] or b"" if work else b"",
    )
