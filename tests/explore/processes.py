"""Runs the bridge's own code up to its next effect.

An operation is a coroutine of the bridge: of its services, or of its checkpoint. It awaits three kinds of effects: it
asks Redis, it publishes, and it waits. Each of them suspends the coroutine here. A process is known by the answers that
its operation has had: the coroutine runs again from its beginning, and gets them again. So a state needs no running
code.
"""

from __future__ import annotations

from collections.abc import Awaitable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from bridge.broker.broker import Broker
from bridge.broker.publications import Publication
from bridge.loops.checkpoint import batches
from bridge.model import message as model
from bridge.model.errors import BridgeError, BrokerUnavailable, NotPublished, StoreUnavailable, UnnamedVerdict
from bridge.model.message import Copy, Record
from bridge.model.values import Defaults, Effective, Policy, Release
from bridge.service.context import Context
from bridge.service.protocol import deliveries, succession
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.settings.settings import Settings
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.outcomes import NoRule
from bridge.store.messages.records import Records
from tests.effective import DEFAULTS, effective

RETENTION_MS: Final = 3_600_000
TOMBSTONE_MS: Final = 7 * 86_400_000

LOST: Final = "lost"
"""The answer to an effect whose answer did not come."""

REFUSED: Final = "refused"
"""The answer to a publish that RabbitMQ refused."""


class Effect:
    def __await__(self) -> Generator[Effect, Any, Any]:
        return (yield self)


@dataclass(frozen=True)
class Ask(Effect):
    """Runs scripts in Redis, in one pipeline. Answered by the raw answers, or LOST."""

    calls: tuple[Call[Any], ...]


@dataclass(frozen=True)
class Put(Effect):
    """Publishes copies. Answered by None, LOST or REFUSED."""

    publications: tuple[Publication, ...]


@dataclass(frozen=True)
class Sleep(Effect):
    until_ms: int


@dataclass
class Process:
    """One run of an operation. `now_ms`: the clock, as the latest answer has told it. The other fields say what the
    operation has done without waiting: whether it acknowledged its delivery, until when it holds the delivery (0: it
    does not), the lease that it keeps, and the records of messages that it has settled."""

    now_ms: int
    nonces: Iterator[int]
    is_acked: bool = False
    held_until_ms: int = 0
    lease: tuple[Copy, int] | None = None
    settled: list[Record] = field(default_factory=list)


@dataclass(frozen=True)
class Ended:
    """An operation has returned `result`, or failed with it."""

    result: Any
    process: Process


class _Store:
    def __init__(self, process: Process) -> None:
        self._process = process
        self.clock = SimpleNamespace(
            known=True, overruled=0, now_ms=lambda: process.now_ms, latest_ms=lambda: process.now_ms
        )

    async def run(self, calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        answer = await Ask(tuple(calls))
        if answer == LOST:
            raise StoreUnavailable("the answer did not come")
        return [call.read(call, [*raw]) for call, raw in zip(calls, answer, strict=True)]

    async def run_each(self, calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        answer = await Ask(tuple(calls))
        if answer == LOST:
            raise StoreUnavailable("the answer did not come")
        return [_read(call, [*raw]) for call, raw in zip(calls, answer, strict=True)]

    async def run_both(self, one: Call[Any], other: Call[Any]) -> tuple[Any, ...]:
        return tuple(await self.run([one, other]))

    async def learn_clock(self, keys: Sequence[str] = ()) -> None: ...

    def by_server(self, keys: Sequence[str]) -> list[list[int]]:
        return [[*range(len(keys))]]


def _read(call: Call[Any], raw: list[Any]) -> Any:
    try:
        return call.read(call, raw)
    except NoRule as answer:
        return UnnamedVerdict(str(answer))


class _Publisher:
    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        answer = await Put(tuple(publications))
        if answer is not None:
            error = NotPublished("refused") if answer == REFUSED else BrokerUnavailable("the confirm did not come")
            return [error] * len(publications)
        for publication in publications:
            if publication.arrived is not None:
                publication.arrived()
        return [None] * len(publications)


@dataclass
class Delivery:
    """What `Taken` is to the bridge, for the delivery with which a process began."""

    process: Process
    properties: Any
    body: bytes
    queue: str = "ready"
    live_for_ms: int = 0

    @property
    def message(self) -> Delivery:
        return self

    def ack(self) -> None:
        self.process.is_acked = True

    def requeue(self) -> None:
        """The delivery goes back, as every one does that its operation has not acknowledged."""


def unacked_leases(process: Process, *, room: int) -> UnackedLeases:
    """The unacknowledged leases of a process. `room`: how many deliveries it may keep."""

    def add(copy: Copy, delivery: Delivery, lease_ms: int) -> None:
        process.lease = copy, process.now_ms + lease_ms

    kept = SimpleNamespace(room=lambda _: room, fits=lambda *_: True, add=add, settled=process.settled.extend)
    return cast("UnackedLeases", kept)


def context(process: Process, policy: Effective, keep_body: int) -> Context:
    """The clients and settings of a process, which turn every call of a server into an effect."""
    publisher = _Publisher()

    async def policy_of(_: str, __: object = None) -> Effective:
        return policy

    async def nothing(*_: object) -> None: ...

    declared = SimpleNamespace(
        has_dead=lambda _: True,
        dead_settles_in_s=lambda _: 0,
        unsettled=lambda _: False,
        wheel=SimpleNamespace(renew_slots=nothing),
    )
    broker = SimpleNamespace(
        copy_publisher=publisher, releases=publisher, declared=declared, has_waited=lambda *_: False
    )
    settings = SimpleNamespace(
        keep_body_max=keep_body, answer_within_s=1.0, checkpoint_prefetch=4_000, audit_every=60_000, audit_grace=60_000
    )
    return Context(
        store=cast("Any", _Store(process)),
        records=Records(keys=Keys("e"), retention_ms=RETENTION_MS, tombstone_ms=TOMBSTONE_MS, timelines=False, now="1"),
        broker=cast("Broker", broker),
        topics=cast("Any", SimpleNamespace(policy=policy_of, used=policy_of)),
        settings=cast("Settings", settings),
    )


def checked(max_retry: int, lease_ms: int) -> Effective:
    """The policy of a topic whose copies all pass the checkpoint."""
    values = Defaults(max_retry=max_retry, ttl_ms=None, lease_ms=lease_ms, backoff=DEFAULTS.backoff)
    return effective(Policy(release=Release.CHECKED), values)


def run(operation: Coroutine[Effect, Any, Any], process: Process, history: Sequence[tuple[int, Any]]) -> Effect | Ended:
    """Runs an operation until it needs an effect that `history` does not answer, or ends. `history`: the moment and the
    answer of each effect so far."""
    answers = iter(history)
    answer: Any = None
    try:
        while True:
            _now[0] = process
            effect = operation.send(answer)
            try:
                process.now_ms, answer = next(answers)
            except StopIteration:
                operation.close()
                return effect
    except StopIteration as ended:
        return Ended(ended.value, process)
    except BridgeError as error:
        return Ended(error, process)


_now: list[Process] = []


@contextmanager
def code_suspends() -> Iterator[None]:
    """Lets the bridge's code suspend at its effects instead of waiting in an event loop, and take its nonces from the
    process that runs."""

    async def gather(*awaited: Awaitable[Any]) -> list[Any]:
        return [await one for one in awaited]

    async def sleep(seconds: float) -> None:
        await Sleep(_now[0].now_ms + int(seconds * 1_000))

    async def reached(moment_s: float) -> None:
        if moment_s > 0:
            await Sleep(_now[0].now_ms + round(moment_s * 1_000))

    def ack_all(taken: Sequence[Delivery]) -> None:
        for one in taken:
            one.ack()

    _now[:] = [Process(0, iter(()))]
    loop = SimpleNamespace(gather=gather, sleep=sleep)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "getrandbits", lambda _: next(_now[0].nonces))
        patch.setattr(batches, "asyncio", loop)
        patch.setattr(batches, "monotonic", lambda: 0.0)
        patch.setattr(batches, "_reached", reached)
        patch.setattr(succession, "asyncio", loop)
        patch.setattr(deliveries, "ack_all", ack_all)
        yield
