"""Tests operations step by step: what a process leaves when it dies, how a cancel ends one, and how many are kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from time import monotonic
from typing import Any

import pytest
import pytest_asyncio

from bridge.cli.assembly import assemble
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.operations import Operations
from bridge.model.bulk import Bulk, BulkAction, BulkOperation, Target
from bridge.model.errors import Conflict
from bridge.model.filter import Filter
from bridge.model.message import Envelope, State
from bridge.model.reach import EVERYWHERE
from bridge.model.values import Change
from bridge.service.bulk.operations import MOST_TRIES, Work
from bridge.service.bulk.wanted import NO_MOMENT, Moment, bulk_of
from bridge.service.pools.bulk_actions import BulkActions
from bridge.service.pools.pools import Pools
from bridge.service.protocol.steps import Step
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import first_copy
from bridge.service.results import Results
from bridge.settings.roles import Role
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.kept.operations import MOST, MOST_RUNNING, Lease, Lost, StoredOperations
from bridge.store.keys import Keys
from bridge.store.messages.verdicts import FireVerdict
from bridge.store.replies import binaries
from tests.forked_bridge import PATIENCE
from tests.integration.bulk import operation, send_numbered
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic, due_ms

_PORTION = 4
_COUNT = 10  # three portions


@dataclass(frozen=True, slots=True)
class Bench:
    """A bridge for the API, and its pools in this process. Tests run the loop of operations by hand."""

    own: Own
    pools: Pools

    @property
    def bulk(self) -> BulkActions:
        return BulkActions(self.pools)

    async def asked(self, topic: Topic, action: BulkAction, moment: Moment = NO_MOMENT) -> Bulk:
        wanted = Filter(topic=topic.name, id_prefix="m-")
        began_ms = await self.bulk.moment_ms()
        return bulk_of(action, wanted, EVERYWHERE, began_ms=began_ms, moment=moment, most=None)

    async def begin(self, topic: Topic, action: BulkAction, moment: Moment = NO_MOMENT) -> BulkOperation:
        begun = await self.bulk.operations.begin(await self.asked(topic, action, moment), "anybody", _COUNT)
        assert begun is not None
        return begun

    async def end_lease(self, begun: BulkOperation) -> None:
        """What the time does after a process has died."""
        key = self.pools.default.context.records.keys.operation_leases
        await self.pools.default.context.store.command("ZADD", key, "XX", 0, begun.id)

    async def leases(self) -> list[bytes]:
        key = self.pools.default.context.records.keys.operation_leases
        return binaries(await self.pools.default.context.store.command("ZRANGE", key, 0, -1))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bench(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Bench]:
    async with own_bridge(rabbit, redis_node.url, local_dir, BRIDGE_ROLES="api") as own:
        settings: dict[str, Any] = {
            "amqp_url": own.settings["BRIDGE_AMQP_URL"],
            "redis_url": own.settings["BRIDGE_REDIS_URL"],
            "redis_prefix": own.settings["BRIDGE_REDIS_PREFIX"],
            "roles": frozenset({Role.API}),
            **PATIENCE,
        }
        pools = assemble(Settings(**settings))
        pools.default.add(Checkpoints(pools.default.loops_context))
        await pools.start()
        yield Bench(own, pools)
        await pools.stop()


@pytest.fixture
def topic(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Topic:
    monkeypatch.setattr("bridge.loops.operations.PORTION", _PORTION)
    return bench.own.with_fresh_topic().topic


async def make_letters(topic: Topic) -> None:
    await send_numbered(topic, "m", _COUNT, max_retry=0)
    pulled = 0
    while pulled < _COUNT:
        for message in await topic.pull(max=_COUNT):
            await topic.nack(message, reason="refused")
            pulled += 1


async def counted(topic: Topic) -> dict[str, int]:
    """Counts the topic's messages. The checkpoint may release those that are due."""
    counts = (await topic.info())["counts"]
    return {"alive": counts["waiting"] + counts["ready"], "dead": counts["dead"], "deleted": counts["deleted"]}


@pytest.mark.parametrize(
    ("action", "before", "after"),
    [
        (BulkAction.DELETE, State.WAITING, "deleted"),
        (BulkAction.DELETE, State.DEAD, "deleted"),
        (BulkAction.MOVE, State.WAITING, "alive"),
        (BulkAction.REPLAY, State.DEAD, "alive"),
    ],
)
async def test_each_message_is_counted_once_although_the_process_dies(
    bench: Bench, topic: Topic, action: BulkAction, before: State, after: str
) -> None:
    if before is State.DEAD:
        await make_letters(topic)
    else:
        await send_numbered(topic, "m", _COUNT, delay="1h")
    await topic.send(id="other", delay="1h")
    begun = await bench.begin(topic, action, Moment(delay_ms=7_200_000) if action is BulkAction.MOVE else NO_MOMENT)
    first, second = Operations(bench.pools), Operations(bench.pools)
    await first.run_once()
    assert not await second.run_once()  # the first has the lease
    await first.run_once()
    work = first._work
    assert work is not None
    assert len(work.portion) == _PORTION
    # It dies in the second portion, before it has counted any of it.
    await bench.bulk.run(work.bulk, work.portion[: _PORTION // 2])
    await bench.end_lease(begun)
    while await second.run_once():
        pass
    ended = await bench.bulk.operations.get(begun.id)
    assert (ended.state, ended.progress.done, ended.progress.failed) == ("done", _COUNT, 0), ended.progress
    counts = await counted(topic)
    assert counts == {"alive": 1, "dead": 0, "deleted": 0} | {after: _COUNT + (after == "alive")}
    if before is State.DEAD:
        assert await bench.pools.default.dead.size(topic.name) == 0
    # It was only slow, and comes back: it changes nothing.
    await first.run_once()
    assert await bench.bulk.operations.get(begun.id) == ended
    assert await counted(topic) == counts


async def test_cancelled_operation_ends_with_the_portion_that_it_has_begun(bench: Bench, topic: Topic) -> None:
    await send_numbered(topic, "m", _COUNT, delay="1h")
    begun = await bench.begin(topic, BulkAction.DELETE)
    loop = Operations(bench.pools)
    await loop.run_once()
    cancelled = await topic.client.post(f"/v1/operations/{begun.id}/cancel")
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    while await loop.run_once():
        pass
    ended = await bench.bulk.operations.get(begun.id)
    assert (ended.state, ended.progress.done) == ("cancelled", _PORTION)
    counts = (await topic.info())["counts"]
    assert (counts["deleted"], counts["waiting"]) == (_PORTION, _COUNT - _PORTION)
    actions = (await topic.client.get(f"/v1/actions?topic={topic.name}")).json()["items"]
    wanted = [("operation_ended", begun.id, _PORTION), ("cancel_operation", begun.id, None)]
    assert [(one["what"], one["target"], one["count"]) for one in actions] == wanted


async def test_operation_counts_messages_that_it_can_not_change_and_names_them(bench: Bench, topic: Topic) -> None:
    await topic.put_policy(keep_body_max=0)
    await topic.send(id="m-large", delay="3h")
    await topic.put_policy()
    await send_numbered(topic, "m", _COUNT, delay="1h")
    begun = await bench.begin(topic, BulkAction.MOVE, Moment(delay_ms=7_200_000))
    loop = Operations(bench.pools)
    while await loop.run_once():
        pass
    ended = await operation(topic, begun.id)
    assert (ended["state"], ended["done"], ended["failed"], ended["reason"]) == ("done", _COUNT, 1, None)
    assert [(one["topic"], one["id"]) for one in ended["failures"]] == [(topic.name, "m-large")]


async def test_operation_that_makes_overdue_messages_due_meets_none_again(bench: Bench, topic: Topic) -> None:
    """Messages of a paused topic wait on, now behind their place in the index."""
    await topic.put_policy(paused=True)
    await send_numbered(topic, "m", _COUNT)
    begun = await bench.begin(topic, BulkAction.RUN_NOW)
    loop = Operations(bench.pools)
    while await loop.run_once():
        pass
    ended = await bench.bulk.operations.get(begun.id)
    assert (ended.state, ended.progress.done, ended.progress.failed) == ("done", _COUNT, 0)


async def test_process_that_was_frozen_changes_nothing_more_and_takes_other_operations(
    bench: Bench, topic: Topic
) -> None:
    ids = await send_numbered(topic, "m", _COUNT, delay="1h")
    begun = await bench.begin(topic, BulkAction.MOVE, Moment(delay_ms=7_200_000))
    frozen, other = Operations(bench.pools), Operations(bench.pools)
    await frozen.run_once()
    await frozen.run_once()
    assert frozen._work is not None
    portion = frozen._work.portion
    assert len(portion) == _PORTION
    await bench.end_lease(begun)
    while await other.run_once():
        pass
    await topic.move(portion[0].id, delay="1h")
    further = await bench.begin(topic, BulkAction.DELETE)
    frozen._work.lease = replace(frozen._work.lease, until_s=monotonic())
    while await frozen.run_once():
        pass
    ended = [await bench.bulk.operations.get(one.id) for one in (begun, further)]
    assert [(one.state, one.progress.done) for one in ended] == [("done", _COUNT)] * 2
    assert await counted(topic) == {"alive": 0, "dead": 0, "deleted": len(ids)}


async def test_process_whose_lease_ends_within_a_portion_changes_no_more_of_it(
    bench: Bench, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.service.bulk.changes.BURST", _PORTION // 2)
    await send_numbered(topic, "m", _PORTION, delay="1h")
    begun = await bench.begin(topic, BulkAction.MOVE, Moment(delay_ms=7_200_000))
    frozen, other = Operations(bench.pools), Operations(bench.pools)
    await frozen.run_once()
    work = frozen._work
    assert work is not None
    changes = bench.pools.default.changes
    moved = changes._move_portion

    async def freeze(bulk: Bulk, targets: Sequence[Target]) -> Results:
        results = await moved(bulk, targets)
        work.lease = replace(work.lease, until_s=monotonic())
        return results

    monkeypatch.setattr(changes, "_move_portion", freeze)
    assert await frozen.run_once()
    monkeypatch.undo()
    due = [due_ms(await topic.look(target.id)) for target in work.portion]
    assert [one == begun.bulk.due_ms for one in due] == [True] * (_PORTION // 2) + [False] * (_PORTION // 2)
    await bench.end_lease(begun)
    while await other.run_once():
        pass
    assert (await bench.bulk.operations.get(begun.id)).progress.done == _PORTION


async def test_lease_is_extended_while_a_portion_lasts(
    bench: Bench, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send_numbered(topic, "m", _PORTION, delay="1h")
    begun = await bench.begin(topic, BulkAction.DELETE)
    loop = Operations(bench.pools)
    await loop.run_once()
    work = loop._work
    assert work is not None
    first, extended = work.lease, asyncio.Event()
    hold, deleted = loop._bulk.operations.hold, bench.pools.default.changes._delete

    async def note(held: Work) -> None:
        await hold(held)
        extended.set()

    async def delete(targets: Sequence[Target]) -> Results:
        await extended.wait()
        return await deleted(targets)

    monkeypatch.setattr("bridge.loops.operations._HOLD_EVERY_S", 0.01)
    monkeypatch.setattr(loop._bulk.operations, "hold", note)
    monkeypatch.setattr(bench.pools.default.changes, "_delete", delete)
    # A cancel meanwhile does not keep it from counting the portion.
    await bench.bulk.operations.cancel(begun.id)
    await loop.run_once()
    assert work.lease.until_ms > first.until_ms
    ended = await bench.bulk.operations.get(begun.id)
    assert (ended.state, ended.progress.done) == ("cancelled", _PORTION)


@pytest.mark.expects_log("loop.failed", at_least=1, at_most=MOST_TRIES + 1)
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["tried", "cancelled"])
async def test_operation_that_crashes_holds_up_no_other_and_fails_after_some_tries(
    bench: Bench, topic: Topic, monkeypatch: pytest.MonkeyPatch, *, is_cancelled: bool
) -> None:
    await send_numbered(topic, "m", _COUNT, delay="1h")
    crashing = await bench.begin(topic, BulkAction.MOVE, Moment(delay_ms=7_200_000))

    async def crash(*_: object) -> Results:
        raise TypeError("no such thing")

    monkeypatch.setattr(bench.pools.default.changes, "_move", crash)
    loop = Operations(bench.pools)
    await loop.run_once()
    await loop.run_once()
    other = await bench.begin(topic, BulkAction.DELETE)
    while await loop.run_once():
        pass
    assert (await bench.bulk.operations.get(other.id)).state == "done"
    assert (await bench.bulk.operations.get(crashing.id)).state == "running"
    if is_cancelled:
        await topic.client.post(f"/v1/operations/{crashing.id}/cancel")
    for _ in range(MOST_TRIES):
        await bench.end_lease(crashing)
        await loop.run_once()
    ended = await operation(topic, crashing.id)
    reason = f"a portion of it failed {MOST_TRIES} times, the last time with TypeError: no such thing"
    assert (ended["state"], ended["reason"]) == (("cancelled", None) if is_cancelled else ("failed", reason))
    assert await bench.leases() == []


@pytest.mark.expects_log("operation.given_up")
async def test_operation_that_kills_its_processes_fails_after_some_tries(bench: Bench, topic: Topic) -> None:
    begun = await bench.begin(topic, BulkAction.DELETE)
    for _ in range(MOST_TRIES):
        assert await bench.bulk.operations.take() is not None
        await bench.end_lease(begun)
    assert not await Operations(bench.pools).run_once()
    ended = await bench.bulk.operations.get(begun.id)
    reason = f"a portion of it was begun {MOST_TRIES} times, and no process came to its end"
    assert (ended.state, ended.reason) == ("failed", reason)
    assert await bench.leases() == []


async def test_operation_on_a_topic_that_is_removed_ends(bench: Bench, topic: Topic) -> None:
    await send_numbered(topic, "m", _COUNT, delay="1h")
    begun = await bench.begin(topic, BulkAction.DELETE)
    loop = Operations(bench.pools)
    await loop.run_once()
    await topic.call("DELETE", "?force=true")
    while await loop.run_once():
        pass
    ended = await bench.bulk.operations.get(begun.id)
    assert (ended.state, ended.progress.done, ended.progress.failed) == ("done", _PORTION, 0)


@pytest.mark.expects_log("operation.unreadable")
async def test_operation_that_this_version_can_not_read_fails_and_holds_up_no_other(bench: Bench, topic: Topic) -> None:
    context = bench.pools.default.context
    await send_numbered(topic, "m", 1, delay="1h")
    unreadable, begun = await bench.begin(topic, BulkAction.DELETE), await bench.begin(topic, BulkAction.DELETE)
    keys = context.records.keys
    await context.store.command("HSET", keys.operation(unreadable.id), "asked", '{"version": 3}')
    loop = Operations(bench.pools)
    assert not await loop.run_once()
    while await loop.run_once():
        pass
    states = [await context.store.command("HGET", keys.operation(one.id), "state") for one in (unreadable, begun)]
    assert states == [b"failed", b"done"]
    listed = (await topic.client.get("/v1/operations")).json()["items"]
    assert [one["id"] for one in listed if one["id"] in {unreadable.id, begun.id}] == [begun.id]


async def test_call_that_would_begin_one_operation_too_many_is_refused_and_changes_nothing(
    bench: Bench, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.service.pools.bulk_actions.AT_ONCE", 3)
    await send_numbered(topic, "m", 4, delay="1h")
    begun = [await bench.begin(topic, BulkAction.DELETE) for _ in range(MOST_RUNNING)]
    asked = await bench.asked(topic, BulkAction.DELETE)
    with pytest.raises(Conflict, match=f"{MOST_RUNNING} operations run, which is the most"):
        await bench.bulk.apply(asked, who="anybody", dry_run=False)
    assert (await bench.bulk.apply(replace(asked, most=2), who="anybody", dry_run=False)).progress.done == 2
    for one in begun:
        await bench.bulk.operations.cancel(one.id)
    assert (await topic.info())["counts"]["waiting"] == 2


async def test_redis_keeps_a_bounded_number_of_operations(store: Store) -> None:
    """The oldest that has ended gives way to a new one."""
    keys = Keys("bounded-operations")
    stored = StoredOperations(store, keys)
    names = [f"{number:026}" for number in range(MOST + 2 * MOST_RUNNING)]
    for name in names[:MOST_RUNNING]:
        assert await stored.begin(name, b"{}", 1)
    assert not await stored.begin("one-too-many", b"{}", 1)
    leases = [await stored.take() for _ in range(MOST_RUNNING)]
    assert (await stored.take(), None in leases) == (None, False)
    long_running, *others = sorted((lease for lease in leases if lease is not None), key=lambda one: one.operation_id)
    for lease in others:
        assert await stored.save(lease, progress=b"{}", work=b"{}", ended="done") is None
    for name in names[MOST_RUNNING:]:
        assert await stored.begin(name, b"{}", 1)
        await stored.cancel(name)
    kept = [one.id for one in await stored.all()]
    assert (len(kept), kept[-1]) == (MOST, long_running.operation_id)
    assert set(kept[:-1]) <= set(names[2 * MOST_RUNNING :])
    assert len(binaries(await store.command("KEYS", f"{keys.operations}*"))) == MOST + 1
    # A lease that another process has taken over changes nothing.
    late = Lease(long_running.operation_id, long_running.until_ms - 1, inf)
    with pytest.raises(Lost):
        await stored.save(late, progress=b'{"done":9}', work=b"{}")
    assert [one.progress for one in await stored.all()][-1] == b""


async def hold(bench: Bench, topic: Topic, message_id: str) -> None:
    """What a checkpoint does about a copy of a paused topic, here for three hours."""
    context = bench.pools.default.context
    (looked,) = await context.store.run([context.records.look(topic.name, message_id)])
    assert looked.record is not None
    call = context.records.fire(first_copy(looked.record, Envelope()), paused_ms=10_800_000, adopt=False)
    (held,) = await context.store.run([call])
    assert held.verdict is FireVerdict.HOLD


async def test_change_of_a_message_that_a_checkpoint_holds_meanwhile_is_done(bench: Bench, topic: Topic) -> None:
    await topic.send(id="m-held", delay="1h")
    service = bench.pools.default
    seen = await service.lookup.get(topic.name, "m-held")
    for as_seen, goal_ms in ((False, seen.record.due_ms + 1_000), (True, seen.record.due_ms + 2_000)):
        seen = await service.lookup.get(topic.name, "m-held")
        await hold(bench, topic, "m-held")
        changed = await service.changing.change(seen, Change(deliver_at_ms=goal_ms), as_seen=as_seen)
        assert (changed.record.due_ms, changed.record.arrives_ms) == (goal_ms, goal_ms)


async def test_move_of_messages_that_a_checkpoint_holds_meanwhile_fails_for_none(
    bench: Bench, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await send_numbered(topic, "m", 3, delay="1h")
    begun = await bench.begin(topic, BulkAction.MOVE, Moment(delay_ms=7_200_000))
    perform, held = Succession.perform, list[str]()

    async def perform_after_a_hold(self: Succession, steps: Sequence[Step[Any]]) -> list[Any]:
        for message_id in [] if held else ids[:2]:
            held.append(message_id)
            await hold(bench, topic, message_id)
        return await perform(self, steps)

    monkeypatch.setattr(Succession, "perform", perform_after_a_hold)
    loop = Operations(bench.pools)
    while await loop.run_once():
        pass
    ended = await bench.bulk.operations.get(begun.id)
    assert held == ids[:2]
    assert (ended.progress.done, ended.progress.failed) == (3, 0), ended.progress
