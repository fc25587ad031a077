"""Keeps bulk operations in Redis: the request, the progress, and the lease of the process that works on the operation.

Each operation is a hash. One sorted set holds all ids by the moments when the operations began. Another sorted set
holds the ids of running operations by the ends of their leases.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Final, NamedTuple

from bridge.store.calls import Call, plain
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import Reply, flag, maybe, several, text, texts, values, whole
from bridge.store.scripts import SCRIPTS

MOST: Final = 200
"""The most operations that are kept. A new operation removes the oldest one that has ended."""
MOST_RUNNING: Final = 20
"""The most operations that run at once."""
LEASE_MS: Final = 15_000
"""How long a lease of an operation lasts. `save` and `hold` extend it. After its end another process takes over."""

_SHOWN: Final = ("asked", "matched", "state", "created_ms", "ended_ms", "progress", "reason")


@dataclass(frozen=True, kw_only=True, slots=True)
class Stored:
    """The data of one bulk operation in Redis. Moments are Unix ms by Redis' clock.

    `asked`: the request. `progress`: the counts so far. `work`: the data that the next worker needs to go on. All three
    are JSON, or empty if there is none. `get` reads `work` only if its caller asks for it. `matched`: how many messages
    matched at the beginning. `state`: `running`, or the final state. `ended_ms`: 0 while the operation runs. `reason`:
    why the operation failed, or empty.
    """

    id: str
    asked: bytes
    matched: int
    state: str
    created_ms: int
    ended_ms: int
    progress: bytes
    reason: str
    work: bytes = b""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of one operation. `until_ms`: the lease's end in Unix ms, which identifies the lease. `until_s`: local
    deadline, a moment of `monotonic()` before the lease's end. After this deadline the holder changes no message.
    `tries`: the number of leases since the operation's work was last saved, including this lease. `save` returns a
    lease with 0."""

    operation_id: str
    until_ms: int
    until_s: float
    tries: int = 0


class _Taken(NamedTuple):
    """The answer of `take_operation.lua`, which leases an operation."""

    id: str
    until_ms: int
    tries: int


class Lost(Exception):
    """Another process has leased the operation, so the caller's lease is no longer valid."""


class StoredOperations:
    """The operations in Redis. Every method raises StoreUnavailable if Redis does not answer. Moments are of Redis'
    clock."""

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    async def begin(self, operation_id: str, asked: bytes, matched: int) -> bool:
        """Stores a new operation, and returns True. If `MOST_RUNNING` operations run, stores nothing and returns False.
        `asked`: the request, as JSON. `matched`: how many messages match it."""
        (began,) = await self._store.run([self.begin_call(operation_id, asked, matched)])
        return began

    async def take(self, lease_ms: int = LEASE_MS) -> Lease | None:
        """Leases an operation that no process works on, and returns the lease. None: there is no such operation."""
        until_s = monotonic() + lease_ms / 1_000
        (taken,) = await self._store.run([self.take_call(lease_ms)])
        return None if taken is None else Lease(taken.id, taken.until_ms, until_s, taken.tries)

    async def save(
        self, lease: Lease, *, progress: bytes, work: bytes, ended: str = "", reason: str = ""
    ) -> Lease | None:
        """Saves an operation's progress. While the operation runs, also saves its remaining work, and returns the
        extended lease. Returns None if the operation has ended, by this call or by a cancel. `ended`: the final state;
        empty: the operation goes on. `reason`: why it failed, else empty.

        Raises:
            Lost: another process has leased the operation; nothing is saved.
        """
        until_s = monotonic() + LEASE_MS / 1_000
        (until_ms,) = await self._store.run([self.save_call(lease, progress, work, ended, reason)])
        if until_ms < 0:
            raise Lost
        return Lease(lease.operation_id, until_ms, until_s) if until_ms else None

    async def hold(self, lease: Lease) -> Lease:
        """Extends the lease while its holder works on a portion of the messages, and returns the new lease. The new
        lease does not count as a further try.

        Raises:
            Lost: another process has leased the operation.
        """
        until_s = monotonic() + LEASE_MS / 1_000
        (until_ms,) = await self._store.run([self.hold_call(lease)])
        if until_ms < 0:
            raise Lost
        return Lease(lease.operation_id, until_ms, until_s, lease.tries)

    async def cancel(self, operation_id: str) -> bool:
        """Cancels the operation if it runs. Returns whether the operation exists."""
        (known,) = await self._store.run([self.cancel_call(operation_id)])
        return known

    async def get(self, operation_id: str, *, work: bool = False) -> Stored | None:
        """Returns the operation; None if there is none. `work`: also reads `Stored.work`."""
        fields = (*_SHOWN, "work") if work else _SHOWN
        return _stored(operation_id, await self._store.command("HMGET", self._keys.operation(operation_id), *fields))

    async def all(self) -> list[Stored]:
        """Returns all operations, the newest first."""
        ids = texts(await self._store.command("ZRANGE", self._keys.operations, 0, -1, "REV"))
        found = await self._store.commands([("HMGET", self._keys.operation(one), *_SHOWN) for one in ids])
        stored = (_stored(operation_id, fields) for operation_id, fields in zip(ids, found, strict=True))
        return [operation for operation in stored if operation is not None]

    def begin_call(self, operation_id: str, asked: bytes, matched: int) -> Call[bool]:
        keys = (self._keys.operations, self._keys.operation_leases, self._keys.operation(operation_id))
        return Call(SCRIPTS["begin_operation"], plain(flag), keys, (operation_id, asked, matched, MOST, MOST_RUNNING))

    def take_call(self, lease_ms: int) -> Call[_Taken | None]:
        return Call(
            SCRIPTS["take_operation"], plain(_taken), (self._keys.operation_leases, self._keys.operations), (lease_ms,)
        )

    def save_call(self, lease: Lease, progress: bytes, work: bytes, ended: str, reason: str) -> Call[int]:
        args = (lease.operation_id, lease.until_ms, LEASE_MS, progress, work, ended, reason)
        return Call(SCRIPTS["save_operation"], plain(whole), self._lease_keys(lease.operation_id), args)

    def hold_call(self, lease: Lease) -> Call[int]:
        args = (lease.operation_id, lease.until_ms, LEASE_MS)
        return Call(SCRIPTS["hold_operation"], plain(whole), (self._keys.operation_leases,), args)

    def cancel_call(self, operation_id: str) -> Call[bool]:
        return Call(SCRIPTS["cancel_operation"], plain(flag), self._lease_keys(operation_id), (operation_id,))

    def _lease_keys(self, operation_id: str) -> tuple[str, str]:
        return self._keys.operation_leases, self._keys.operation(operation_id)


def _taken(reply: Reply) -> _Taken | None:
    taken = maybe(several, reply)
    return None if taken is None else _Taken(text(taken[0]), whole(taken[1]), whole(taken[2]))


def _stored(operation_id: str, reply: Reply) -> Stored | None:
    asked, matched, state, created_ms, ended_ms, progress, reason, *work = values(reply)
    if asked is None or matched is None or state is None or created_ms is None:
        return None
    return Stored(
        id=operation_id,
        asked=asked,
        matched=int(matched),
        state=state.decode(),
        created_ms=int(created_ms),
        ended_ms=int(ended_ms or 0),
        progress=progress or b"",
        reason=(reason or b"").decode(),
        work=work[0] or b"" if work else b"",
    )
