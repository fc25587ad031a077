"""Describes one state of the explored world: Redis, RabbitMQ, the processes, and what clients were told. Pure.

All values are hashable. Two states are one state if they are equal.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bridge.broker.copies.copies import CLIENTS_ID
from bridge.model.message import Copy, CopyKind, Envelope
from tests.explore.stored import Store

TOPIC: Final = "explored"
BORN_MS: Final = 4_102_444_800_000
"""The clock of the first state. It is later than any real clock, so Redis itself expires nothing."""


class Carried(NamedTuple):
    """A copy as RabbitMQ carries it. `clients_id`: the header with the id that the client gave; empty: none."""

    id: str
    epoch: int
    nonce: int
    attempt: int
    max_retry: int
    due_ms: int
    expires_ms: int
    created_ms: int
    asked: int
    body: bytes
    clients_id: str

    @classmethod
    def of(cls, copy: Copy) -> Carried:
        return cls(
            copy.id,
            copy.epoch,
            copy.nonce,
            copy.attempt,
            copy.max_retry,
            copy.due_ms,
            copy.expires_ms,
            copy.created_ms,
            copy.asked,
            copy.envelope.body or b"",
            copy.envelope.headers.get(CLIENTS_ID, ""),
        )

    def copy(self) -> Copy:
        headers = {CLIENTS_ID: self.clients_id} if self.clients_id else {}
        return Copy(
            topic=TOPIC,
            id=self.id,
            epoch=self.epoch,
            nonce=self.nonce,
            attempt=self.attempt,
            max_retry=self.max_retry,
            due_ms=self.due_ms,
            expires_ms=self.expires_ms,
            created_ms=self.created_ms,
            asked=self.asked,
            envelope=Envelope(headers=headers, body=self.body),
        )


WHEEL: Final = "wheel"
READY: Final = "ready"
RETURNED: Final = "returned"
DEAD: Final = "dead"


class Placed(NamedTuple):
    """A copy in a queue. `at_ms`: when it leaves the wheel, or expires in the ready queue (0: never). `kind`: of a copy
    in the wheel; for a returned copy, why it returned. `waited_ms`: how long the wheel keeps it."""

    place: str
    copy: Carried
    at_ms: int = 0
    kind: CopyKind | str = CopyKind.PLAIN
    waited_ms: int = 0


class Task(NamedTuple):
    """A process at work on one operation.

    `number` tells it from others that began with the same at this moment. `history`: the moment and the answer of each
    effect so far. `taken`: the delivery with which the work began; `lease`: the unacknowledged lease with which it
    began.
    """

    operation: str
    args: tuple[Any, ...]
    began_ms: int
    number: int
    history: tuple[tuple[int, Any], ...] = ()
    taken: Placed | None = None
    lease: Lease | None = None


class Lease(NamedTuple):
    """A delivery that a process keeps unacknowledged, and the lease copy that the record names."""

    delivery: Placed
    copy: Carried
    since_ms: int
    until_ms: int


class Receipt(NamedTuple):
    id: str
    text: str


class Fate(NamedTuple):
    """What is known of a message beside its record. `accepted`: a client was told so. `over`: why it needs no further
    delivery; empty: it does. `deleted`: a delete of it was carried out while it waited. `due_ms`: the latest due moment
    that a call has written; `changed`: that call was not its send. `released`: the nonces of its copies that have been
    in the ready queue. `leases`: how often it was leased. `lease_until_ms`: the end of a lease that nobody has given
    back. `confirmed`: a send of it has succeeded, or Redis has forgotten whether one has."""

    accepted: bool = False
    confirmed: bool = False
    over: str = ""
    deleted: bool = False
    due_ms: int = 0
    changed: bool = False
    released: frozenset[int] = frozenset()
    leases: int = 0
    lease_until_ms: int = 0


class State(NamedTuple):
    """`faults`: how many more may happen. `fates`: by the moment of a message's creation, which no two messages share.
    `begun`: how often each call of the scenario began, and how often a consumer rejected a copy. `lately`: the work for
    copies that began at this moment, and how often. `emptied`: Redis has lost its data once. `replica`: what Redis
    keeps if it fails over; None: all. `failed_over`: it has done so, and has lost its latest calls."""

    now_ms: int
    faults: int
    store: Store
    copies: tuple[Placed, ...] = ()
    tasks: tuple[Task, ...] = ()
    leases: tuple[Lease, ...] = ()
    receipts: tuple[Receipt, ...] = ()
    fates: tuple[tuple[int, Fate], ...] = ()
    begun: tuple[int, ...] = ()
    lately: frozenset[tuple[Any, int]] = frozenset()
    emptied: bool = False
    replica: Store | None = None
    failed_over: bool = False


def without(items: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    """Returns the items without the first one that equals `item`."""
    at = items.index(item)
    return items[:at] + items[at + 1 :]


def with_one(items: tuple[Any, ...], item: Any) -> tuple[Any, ...]:
    """Returns the items and `item`, in an order that depends on the items alone."""
    return tuple(sorted((*items, item)))
