"""Tests operations step by step: what a process leaves when it dies, how a cancel ends one, and how many are kept."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bridge.cli.assembly import assemble
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.operations import Operations
from bridge.model.bulk import BulkAction, BulkOperation
from bridge.model.filter import Filter
from bridge.model.message import State
from bridge.model.reach import EVERYWHERE
from bridge.service.bulk.wanted import NO_MOMENT, Moment, bulk_of
from bridge.service.bulk_actions import AT_ONCE, BulkActions
from bridge.service.pools import Pools
from bridge.settings.roles import Role
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.operations import MOST, MOST_RUNNING, Lease, StoredOperations
from tests.forked_bridge import PATIENCE
from tests.integration.bulk import act, send_numbered
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Topic

_PORTION = 20
_COUNT = 50


@dataclass(frozen=True, slots=True)
class Bench:
    """A bridge for the API, and its pools in this process. Tests run the loop of operations by hand."""

    own: Own
    pools: Pools

    @property
    def bulk(self) -> BulkActions:
        return BulkActions(self.pools)

    async def begin(self, topic: Topic, action: BulkAction, moment: Moment = NO_MOMENT) -> BulkOperation:
        wanted = Filter(topic=topic.name, id_prefix="m-")
        began_ms = await self.bulk.moment_ms()
        bulk = bulk_of(action, wanted, EVERYWHERE, began_ms=began_ms, moment=moment, most=None)
        begun = await self.bulk.operations.begin(bulk, "anybody", _COUNT)
        assert begun is not None
        return begun

    async def end_lease(self, begun: BulkOperation) -> None:
        """What the time does after a process has died."""
        key = self.pools.default.context.records.keys.operation_leases
        await self.pools.default.context.store.command("ZADD", key, 0, begun.id)


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


async def test_operation_that_this_version_can_not_read_fails_and_holds_up_no_other(bench: Bench, topic: Topic) -> None:
    context = bench.pools.default.context
    await send_numbered(topic, "m", 1, delay="1h")
    unreadable, begun = await bench.begin(topic, BulkAction.DELETE), await bench.begin(topic, BulkAction.DELETE)
    keys = context.records.keys
    await context.store.command("HSET", keys.operation(unreadable.id), "asked", '{"version": 2}')
    loop = Operations(bench.pools)
    assert not await loop.run_once()
    while await loop.run_once():
        pass
    states = [await context.store.command("HGET", keys.operation(one.id), "state") for one in (unreadable, begun)]
    assert states == [b"failed", b"done"]
    listed = (await topic.client.get("/v1/operations")).json()["items"]
    assert [one["id"] for one in listed if one["id"] in {unreadable.id, begun.id}] == [begun.id]


async def test_call_that_would_begin_one_operation_too_many_is_refused_and_changes_nothing(
    bench: Bench, topic: Topic
) -> None:
    await send_numbered(topic, "m", AT_ONCE + 1, delay="1h")
    begun = [await bench.begin(topic, BulkAction.DELETE) for _ in range(MOST_RUNNING)]
    refused = await act(topic, "delete", expect=409)
    assert refused["detail"].startswith(f"{MOST_RUNNING} operations run, which is the most")
    assert (await act(topic, "delete", max=2))["done"] == 2
    for one in begun:
        await bench.bulk.operations.cancel(one.id)
    assert (await topic.info())["counts"]["waiting"] == AT_ONCE - 1


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
    assert len(await store.command("KEYS", f"{keys.operations}*")) == MOST + 1
    # A lease that another process has taken over changes nothing.
    late = Lease(long_running.operation_id, long_running.until_ms - 1)
    assert await stored.save(late, progress=b'{"done":9}', work=b"{}") is None
    assert [one.progress for one in await stored.all()][-1] == b""
