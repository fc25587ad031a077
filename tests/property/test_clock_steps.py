"""Tests when an extended lease ends if the clock of Redis is set back: never early, and how late at most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.broker.copies.classify import Due
from bridge.broker.publications import short_ms
from bridge.local.redis import RedisNode
from bridge.loops.checkpoint.verdicts import Hold, Perform, after_fire
from bridge.model.message import Copy, CopyKind, Envelope
from bridge.service.protocol.successors import lease_copy
from bridge.store.messages.verdicts import FireVerdict
from tests.property.test_transitions import connected_store
from tests.property.world import BORN_MS, World

HOUR_MS: Final = 3_600_000
LATE_MS: Final = 2_000  # as docs/guarantees.md says

lasts_ms = st.integers(1_000, 60_000)


@dataclass(frozen=True, kw_only=True)
class Extended:
    """A lease that begins at 0 and is extended at `extended_at_ms`, before its end. The clock is `ahead_ms` ahead until
    `right_at_ms`. All moments are in ms by a right clock."""

    lease_ms: int
    extended_at_ms: int
    extension_ms: int
    ahead_ms: int
    right_at_ms: int

    @property
    def planned_ms(self) -> int:
        return max(self.lease_ms, self.extended_at_ms + self.extension_ms)

    @property
    def longest_ms(self) -> int:
        return max(self.lease_ms, self.extension_ms)

    def clock_ms(self, at_ms: int) -> int:
        return BORN_MS + at_ms + (self.ahead_ms if at_ms < self.right_at_ms else 0)


@st.composite
def extended_leases(draw: st.DrawFn) -> Extended:
    lease_ms, extension_ms = draw(lasts_ms), draw(lasts_ms)
    return Extended(
        lease_ms=lease_ms,
        extended_at_ms=draw(st.integers(1, lease_ms - 1)),
        extension_ms=extension_ms,
        ahead_ms=draw(st.integers(0, 130_000) | st.just(2 * HOUR_MS)),
        right_at_ms=draw(st.integers(0, lease_ms + extension_ms)),
    )


def ends_ms(world: World, lease: Extended) -> int:
    """Leases a message and extends the lease. Returns when the checkpoint ends it."""
    message_id = f"{world.nonce()}"
    world.now_ms = lease.clock_ms(0)
    fields = {"epoch": 1, "attempt": 1, "max_retry": 3, "due_ms": world.now_ms, "created_ms": world.now_ms}
    first = Copy(topic=world.topic, id=message_id, nonce=1, expires_ms=0, envelope=Envelope(), **fields)
    copy = lease_copy(first, world.now_ms + lease.lease_ms, counted=True)
    world.ask(world.records.lease(first, next_nonce=copy.nonce, lease_ms=lease.lease_ms, arrives_in_ms=lease.lease_ms))
    world.now_ms = lease.clock_ms(lease.extended_at_ms)
    world.ask(world.records.extend(world.topic, message_id, epoch=None, lease_ms=lease.extension_ms))
    at_ms, waited_ms = lease.lease_ms, lease.lease_ms
    while True:
        world.now_ms = lease.clock_ms(at_ms)
        fire = world.records.fire(copy, paused_ms=0, adopt=False, waited_ms=waited_ms, short_ms=short_ms())
        (outcome, again) = world.ask(fire, twice=True)
        assert (again.verdict, again.extra) == (outcome.verdict, outcome.extra)
        if outcome.verdict is FireVerdict.RELEASE:
            return at_ms
        assert outcome.verdict is FireVerdict.HOLD
        decision = after_fire(world.records, Due(tag=1, original=copy, copy=copy, kind=CopyKind.LEASE), outcome)
        if isinstance(decision, Hold):
            at_ms += outcome.extra
            continue
        assert isinstance(decision, Perform)
        publication = decision.step.publication
        assert publication.kind is CopyKind.LEASE
        copy, waited_ms = publication.copy, int(publication.left_ms)
        at_ms += waited_ms


EXAMPLES: Final = (
    # The clock is right before the extension, so a greater step could not be told from one after it.
    Extended(lease_ms=20_000, extended_at_ms=19_000, extension_ms=9_000, ahead_ms=5_000, right_at_ms=18_000),
    Extended(lease_ms=20_000, extended_at_ms=19_000, extension_ms=9_000, ahead_ms=12_000, right_at_ms=18_000),
    Extended(lease_ms=20_000, extended_at_ms=19_500, extension_ms=9_000, ahead_ms=20_400, right_at_ms=18_000),
    # The extension makes the lease no longer.
    Extended(lease_ms=30_000, extended_at_ms=1_000, extension_ms=9_000, ahead_ms=2 * HOUR_MS, right_at_ms=8_000),
    # The clock is right while the lease copy is held.
    Extended(lease_ms=4_000, extended_at_ms=1_000, extension_ms=9_000, ahead_ms=2 * HOUR_MS, right_at_ms=8_000),
)


def test_extended_lease_never_ends_early_and_late_by_the_step_at_most(redis_node: RedisNode) -> None:
    with connected_store(redis_node) as (run, store):
        world = World(run, store)

        @settings(deadline=None, max_examples=300)
        @given(lease=extended_leases())
        def check(lease: Extended) -> None:
            late_ms = ends_ms(world, lease) - lease.planned_ms
            assert 0 <= late_ms <= min(lease.ahead_ms, lease.longest_ms) + LATE_MS
            if lease.right_at_ms > lease.extended_at_ms and lease.ahead_ms > lease.longest_ms + LATE_MS:
                assert late_ms <= LATE_MS

        for lease in EXAMPLES:
            check = example(lease=lease)(check)
        check()
        world.clear()
