"""Tests schedules step by step: what a planner sends, what it leaves when it dies, what changes do to planned ticks.

No process of the test plans by itself. Tests run the loop by hand, and set a schedule's position back instead of
waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from bridge.cli.assembly import assemble
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.schedules import Schedules as Loop
from bridge.model.durations import format_instant, parse_instant_ms
from bridge.model.errors import StoreUnavailable
from bridge.model.part_state import OK, Failed
from bridge.service.health.supervisor import Status
from bridge.service.pools.pools import Pools
from bridge.service.schedules.changes import Schedules
from bridge.service.schedules.definition import Spec, Template, progress_json, read_schedule
from bridge.service.schedules.planner import Planner
from bridge.service.schedules.ticks import Missed, Rules
from bridge.service.schedules.timing import Tick, Timing, tick_id
from bridge.settings.roles import Role
from bridge.settings.settings import Settings
from bridge.store.kept.schedules import MOST, Lease, Lost
from bridge.store.replies import binaries
from tests.forked_bridge import PATIENCE
from tests.integration.own import Own, own_bridge
from tests.integration.schedules import Schedule
from tests.integration.topic import Topic

MINUTE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Bench:
    """A bridge for the API, and its pools in this process, which release messages. Tests plan by hand."""

    own: Own
    pools: Pools

    @property
    def schedules(self) -> Schedules:
        return Schedules(self.pools)

    async def now_ms(self) -> int:
        await self.pools.default.context.store.learn_clock()
        return await self.schedules.now_ms()

    async def plan(self, loop: Loop | None = None) -> None:
        """Plans until nothing is to be planned."""
        planning = loop or Loop(self.pools, {})
        while await planning.run_once():
            pass

    async def change(self, name: str, **progress: Any) -> None:
        """Changes how far a schedule is planned, and has it planned next."""
        stored = self.schedules.stored
        found, lease = await stored.get(name), await self.lease(name)
        assert found is not None
        schedule = read_schedule(found).but(**progress)
        await stored.save(lease, state=progress_json(schedule.progress), wake_ms=0, leave=True)

    async def lease(self, name: str) -> Lease:
        lease = await self.schedules.stored.lease(name)
        assert lease is not None
        return lease

    async def end_lease(self, name: str) -> None:
        """What the time does after a process has died or was frozen."""
        keys, store = self.pools.default.context.records.keys, self.pools.default.context.store
        await store.command("HDEL", keys.schedule_leases, name)
        await store.command("ZADD", keys.schedule_wakes, 0, name)


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
def topic(bench: Bench) -> Topic:
    return bench.own.with_fresh_topic().topic


@pytest.fixture
def schedule(topic: Topic) -> Schedule:
    return Schedule(topic, f"s-{uuid4().hex[:8]}")


async def far(bench: Bench, *, minutes: int = 60) -> str:
    """A moment of the future for `start`."""
    return format_instant(await bench.now_ms() // MINUTE_MS * MINUTE_MS + minutes * MINUTE_MS)


async def soon(bench: Bench, schedule: Schedule) -> list[str]:
    """Makes a schedule whose ticks are some minutes apart, and sends the next one ahead, as if it came in seconds.
    Returns its id."""
    put = await schedule.put(every="10m", anchor=await far(bench))
    (tick, *_) = put["next"]
    due_ms = parse_instant_ms(tick["at"])
    await bench.change(schedule.name, unsent=((due_ms, due_ms),), planned=((due_ms, due_ms),), position_ms=due_ms)
    await bench.plan()
    return [f"{schedule.name}@{tick['at'].replace('.000Z', 'Z')}"]


async def test_schedule_shows_what_was_asked_for_and_its_next_five_ticks(schedule: Schedule) -> None:
    put = await schedule.put(
        cron="30 2 * * *",
        timezone="Europe/Vienna",
        start="2030-03-29T00:00:00Z",
        end="2030-04-02T00:00:00Z",
        message={"body": {"n": 1}, "headers": {"a": "b"}, "labels": {"x": "y"}, "max_retry": 1, "ttl": "1h"},
    )
    assert put == await schedule.look()
    assert (put["state"], put["cron"], put["every_ms"], put["message"]["ttl_ms"]) == (
        "active",
        "30 2 * * *",
        None,
        3_600_000,
    )
    assert [tick["at"] for tick in put["next"]] == [
        "2030-03-29T01:30:00.000Z",
        "2030-03-30T01:30:00.000Z",
        "2030-03-31T01:00:00.000Z",
        "2030-04-01T00:30:00.000Z",
    ]
    page = (await schedule.topic.client.get("/v1/schedules", params={"limit": "1000"})).json()
    assert put | {"message": None} in page["items"]
    assert len((await schedule.call("GET", "/next?count=3"))["items"]) == 3


async def test_the_same_request_once_more_changes_nothing(bench: Bench, schedule: Schedule) -> None:
    ids = await soon(bench, schedule)
    before = await schedule.look()
    fields = {"every": "10m", "anchor": before["anchor"]}
    assert await schedule.put(**fields, expect=200) == before
    assert await schedule.ids(state="waiting") == ids


async def test_tick_is_an_ordinary_message_of_its_moment(bench: Bench, schedule: Schedule) -> None:
    await schedule.put(every="1s", message={"body": {"n": 1}, "headers": {"a": "b"}, "labels": {"x": "y"}})
    await bench.plan()
    first, *_, last = await schedule.ids(label="x:y")
    message = await schedule.topic.pull_one()
    assert (message["id"], message["body"], message["headers"]) == (first, {"n": 1}, {"a": "b"})
    await schedule.topic.ack(message)
    # It was sent ahead, so it is due exactly then.
    assert (await schedule.topic.look(last))["due_at"].replace(".000Z", "Z") == last.partition("@")[2]
    found = await schedule.look()
    assert found["sent"] >= 1
    await schedule.call("DELETE")


async def test_planner_that_died_between_its_steps_leaves_each_tick_once(bench: Bench, schedule: Schedule) -> None:
    """One dies when it has noted the ticks, one when it has sent them, and the messages end meanwhile."""
    await schedule.put(every="1s")
    await bench.end_lease(schedule.name)
    stored, dead = bench.schedules.stored, Planner(bench.pools, bench.schedules.stored, Status("schedules"))
    read = read_schedule(await found(bench, schedule))
    noted = await dead._decided(await bench.lease(schedule.name), read)
    ids = noted.ids(noted.progress.unsent)
    assert len(ids) >= 4
    await bench.end_lease(schedule.name)
    lease = await bench.lease(schedule.name)
    await dead._sent(lease, read_schedule(await found(bench, schedule)))
    assert sorted(await schedule.topic.pull_ids(len(ids))) == ids  # many pulls may change the order
    await bench.change(schedule.name, is_paused=False)
    await bench.end_lease(schedule.name)
    with pytest.raises(Lost):
        await stored.save(lease, state=b"{}", wake_ms=None, leave=True)
    await bench.plan()
    await schedule.call("POST", "/pause")
    assert not set(await schedule.ids(state="waiting")) & set(ids)
    marker = (await schedule.topic.send(id="marker"))["id"]
    assert not set(await schedule.topic.drain(marker)) & set(ids)
    assert (await schedule.look())["sent"] >= len(ids)


@pytest.mark.expects_log("loop.failed")
async def test_schedule_that_meets_a_bug_shows_as_failed_until_it_is_planned(
    bench: Bench, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    await schedule.put(every="1h")
    status = Status("schedules", state=OK)
    planner = Planner(bench.pools, bench.schedules.stored, status)
    with monkeypatch.context() as broken:
        broken.setattr("bridge.service.schedules.planner.read_schedule", lambda stored: {}[stored.name])
        await planner.plan_many([await bench.lease(schedule.name)])
        failed = status.state
    await bench.end_lease(schedule.name)
    await planner.plan_many([await bench.lease(schedule.name)])
    assert (type(failed), status.state) == (Failed, OK)


@pytest.mark.parametrize("is_sent", [True, False])
async def test_schedule_that_was_planned_while_the_clock_was_ahead_ticks_on_once_it_is_right(
    bench: Bench, schedule: Schedule, *, is_sent: bool
) -> None:
    """What two hours ahead leave in Redis: a position, the latest tick, perhaps a tick that RabbitMQ has not taken, and
    when it is to be planned next."""
    await schedule.put(every="1s", overlap="skip")
    await bench.plan()
    now_ms, keys, store = await bench.now_ms(), bench.schedules.stored._keys, bench.pools.default.context.store
    ahead_ms = now_ms + 120 * MINUTE_MS
    unsent = () if is_sent else (Tick(ahead_ms, ahead_ms),)
    await bench.change(schedule.name, position_ms=ahead_ms, last_ms=ahead_ms, unsent=unsent)
    await store.command("ZADD", keys.schedule_wakes, ahead_ms, schedule.name)
    await store.command("SET", keys.schedule_clock, ahead_ms)
    sent = (await schedule.look())["sent"]
    loop = Loop(bench.pools, {})
    async with asyncio.timeout(20):
        while (await schedule.look())["sent"] == sent:
            await loop.run_once()
    assert float(str(await store.command("ZSCORE", keys.schedule_wakes, schedule.name))) < now_ms + MINUTE_MS
    await schedule.call("DELETE")


async def test_planner_that_was_frozen_sends_nothing_after_its_lease(bench: Bench, schedule: Schedule) -> None:
    await schedule.put(every="1s")
    lease = await bench.lease(schedule.name)
    planner = Planner(bench.pools, bench.schedules.stored, Status("schedules"))
    noted = await planner._decided(lease, read_schedule(await found(bench, schedule)))
    await bench.end_lease(schedule.name)
    paused = await schedule.call("POST", "/pause")
    assert paused["state"] == "paused"
    with pytest.raises(StoreUnavailable):
        await planner._sent(replace(lease, until_s=lease.until_s - 60), noted)
    assert await schedule.ids() == []


async def found(bench: Bench, schedule: Schedule) -> Any:
    stored = await bench.schedules.stored.get(schedule.name)
    assert stored is not None
    return stored


@pytest.mark.parametrize("call", ["pause", "delete"])
async def test_planned_tick_does_not_fire_after_a_pause_or_a_delete(
    bench: Bench, schedule: Schedule, call: str
) -> None:
    (message_id,) = await soon(bench, schedule)
    assert await schedule.topic.state(message_id) == "waiting"
    await schedule.call(*(("POST", "/pause") if call == "pause" else ("DELETE",)))
    assert await schedule.topic.state(message_id) == "deleted"
    await bench.plan()
    assert await schedule.ids(state="waiting") == []


async def test_tick_that_a_pause_withdrew_is_sent_after_the_pause(bench: Bench, schedule: Schedule) -> None:
    (message_id,) = await soon(bench, schedule)
    await schedule.call("POST", "/pause")
    assert (await schedule.look())["next"] == []
    resumed = await schedule.call("POST", "/resume")
    due_ms = parse_instant_ms(resumed["next"][0]["at"])
    await bench.change(schedule.name, position_ms=due_ms, unsent=((due_ms, due_ms),), planned=((due_ms, due_ms),))
    await bench.plan()
    assert await schedule.ids(state="waiting") == [message_id]


async def test_tick_that_somebody_deleted_stays_deleted(bench: Bench, schedule: Schedule) -> None:
    (message_id,) = await soon(bench, schedule)
    await schedule.topic.delete(message_id)
    due_ms = parse_instant_ms(message_id.partition("@")[2])
    await bench.change(schedule.name, unsent=((due_ms, due_ms),))
    await bench.plan()
    assert await schedule.topic.state(message_id) == "deleted"


async def test_change_of_the_message_sends_planned_ticks_with_the_new_one(bench: Bench, schedule: Schedule) -> None:
    (message_id,) = await soon(bench, schedule)
    anchor = (await schedule.look())["anchor"]
    await schedule.put(every="10m", anchor=anchor, message={"body": "new"}, expect=200)
    await bench.plan()
    assert await schedule.ids(state="waiting") == [message_id]
    assert (await schedule.topic.look(message_id))["body"] == "new"


async def test_change_of_the_timing_withdraws_planned_ticks(bench: Bench, schedule: Schedule) -> None:
    (message_id,) = await soon(bench, schedule)
    await schedule.put(every="7h", expect=200)
    await bench.plan()
    assert await schedule.ids(state="waiting") == []
    assert await schedule.topic.state(message_id) == "deleted"


async def test_tick_that_two_changes_withdrew_is_sent_although_its_moment_has_passed(
    bench: Bench, schedule: Schedule
) -> None:
    (message_id,) = await soon(bench, schedule)
    anchor = (await schedule.look())["anchor"]
    await schedule.put(every="10m", anchor=anchor, message={"body": "second"}, expect=200)
    # What the time does while nobody plans.
    at_ms = parse_instant_ms(message_id.partition("@")[2])
    now_ms = await bench.now_ms()
    await bench.change(schedule.name, unsent=((at_ms, now_ms - 1),), planned=((at_ms, now_ms - 1),))
    await schedule.put(every="10m", anchor=anchor, message={"body": "third"}, expect=200)
    await bench.plan()
    message = await schedule.topic.pull_one()
    assert (message["id"], message["body"]) == (message_id, "third")


async def test_tick_that_has_fired_is_not_sent_again_by_a_change(bench: Bench, schedule: Schedule) -> None:
    (message_id,) = await soon(bench, schedule)
    anchor = (await schedule.look())["anchor"]
    at_ms = parse_instant_ms(message_id.partition("@")[2])
    await schedule.topic.move(message_id, delay=0)
    await schedule.topic.ack(await schedule.topic.pull_one())
    await bench.change(schedule.name, unsent=((at_ms, await bench.now_ms() - 1),))
    await schedule.put(every="10m", anchor=anchor, message={"body": "new"}, expect=200)
    await bench.plan()
    assert await schedule.topic.state(message_id) == "acked"


async def test_ticks_whose_moments_passed_before_a_change_of_the_timing_are_sent(
    bench: Bench, schedule: Schedule
) -> None:
    now_ms = await bench.now_ms()
    await schedule.put(every="1m", anchor=now_ms - 1_000)
    await bench.change(schedule.name, position_ms=now_ms - MINUTE_MS // 2)
    for every in ("2m", "3m"):  # nobody plans between the changes
        await schedule.put(every=every, anchor=now_ms + MINUTE_MS, expect=200)
    await bench.plan()
    assert await schedule.topic.pull_ids(1) == [tick_id(schedule.name, now_ms - 1_000)]
    assert (await schedule.look())["sent"] == 1


async def test_change_that_died_before_its_end_leaves_the_former_schedule(
    bench: Bench, schedule: Schedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    (message_id,) = await soon(bench, schedule)
    former = await bench.schedules.get(schedule.name)

    schedules = bench.schedules
    withdrawn = schedules._withdrawn

    async def withdraw_and_die(*given: Any) -> Any:
        await withdrawn(*given)
        raise StoreUnavailable("the process dies here")

    monkeypatch.setattr(schedules, "_withdrawn", withdraw_and_die)
    with pytest.raises(StoreUnavailable):
        await schedules.put(
            schedule.name, replace(former.spec, timing=Timing(every_ms=1_000)), who="", check=lambda spec: None
        )
    assert await schedule.topic.state(message_id) == "deleted"
    await bench.end_lease(schedule.name)
    await bench.plan()
    assert (await bench.schedules.get(schedule.name)).spec == former.spec
    assert await schedule.ids(state="waiting") == [message_id]


@pytest.mark.parametrize(("missed", "sent"), [("skip", 0), ("last", 1), ("all", 10)])
async def test_after_ten_minutes_without_a_planner(bench: Bench, schedule: Schedule, missed: str, sent: int) -> None:
    now_ms = await bench.now_ms()
    # The latest tick was half a minute ago, and nobody has planned for ten minutes.
    await schedule.put(every="1m", anchor=now_ms - 30_000, missed=missed)
    await bench.change(schedule.name, position_ms=now_ms - 10 * MINUTE_MS)
    await bench.plan()
    due = await schedule.topic.pull_ids(sent) if sent else []
    assert sorted(due) == [
        f"{schedule.name}@{format_instant(now_ms - 30_000 - ago * MINUTE_MS).replace('.000Z', 'Z')}"
        for ago in reversed(range(sent))
    ]
    assert await schedule.ids(state="waiting,ready") == []
    shown = await schedule.look()
    assert (shown["sent"], shown["missed_ticks"]) == (sent, 10 - sent)
    await schedule.call("DELETE")


async def test_tick_is_left_out_while_the_former_one_lives(bench: Bench, schedule: Schedule) -> None:
    now_ms = await bench.now_ms()
    former_ms, position_ms = now_ms - 2 * MINUTE_MS, now_ms - 90_000
    await schedule.put(every="1m", anchor=now_ms - 30_000, overlap="skip")
    former = await schedule.topic.send(id=tick_id(schedule.name, former_ms))
    leased = await schedule.topic.pull_one(lease="1h")
    await bench.change(schedule.name, position_ms=position_ms, last_ms=former_ms)
    await bench.plan()
    shown = await schedule.look()
    assert (leased["id"], shown["sent"], shown["overlapped"]) == (former["id"], 0, 1)
    await schedule.topic.ack(leased)
    await bench.change(schedule.name, position_ms=position_ms, last_ms=former_ms)
    await bench.plan()
    shown = await schedule.look()
    assert (shown["sent"], shown["overlapped"]) == (1, 1)
    assert await schedule.topic.pull_ids(1) == [tick_id(schedule.name, now_ms - 30_000)]
    await schedule.call("DELETE")


async def test_second_backfill_adds_none(bench: Bench, schedule: Schedule) -> None:
    now_ms = await bench.now_ms()
    await schedule.put(every="1m", anchor=now_ms)
    span = {"from": now_ms - 20 * MINUTE_MS, "to": now_ms - 1}
    first = await schedule.call("POST", "/backfill", span)
    assert (first["ticks"], first["sent"]) == (20, 20)
    assert len(await schedule.topic.pull_ids(20, max=20)) == 20
    again = await schedule.call("POST", "/backfill", span)
    assert (again["ticks"], again["sent"]) == (20, 0)
    # Also when Redis has forgotten the messages.
    keys, store = bench.pools.default.context.records.keys, bench.pools.default.context.store
    for key in await store.command_each("KEYS", f"{keys.prefix}/{{{schedule.topic.name}*}}/m/*"):
        for one in binaries(key):
            await store.command("DEL", one)
    assert (await schedule.call("POST", "/backfill", span))["sent"] == 0
    more = await schedule.call("POST", "/backfill", {"from": now_ms - 25 * MINUTE_MS, "to": now_ms + MINUTE_MS})
    assert more["sent"] == 6  # five before, and one now
    await schedule.call("DELETE")


async def test_backfill_has_a_limit_of_ticks_and_a_past(bench: Bench, schedule: Schedule) -> None:
    now_ms = await bench.now_ms()
    await schedule.put(every="1s")
    await bench.end_lease(schedule.name)
    for span, field in (
        ({"from": now_ms - 1_001_000, "to": now_ms}, "to"),
        ({"from": now_ms + 60_000, "to": now_ms + 120_000}, "from"),
        ({"from": now_ms - 1_000, "to": now_ms - 2_000}, "to"),
    ):
        (error,) = (await schedule.call("POST", "/backfill", span, expect=422))["errors"]
        assert error["field"] == field
    await schedule.call("DELETE")


async def test_trigger_sends_the_message_now_also_in_a_pause(bench: Bench, schedule: Schedule) -> None:
    await schedule.put(cron="0 0 1 1 *", message={"body": "yearly"})
    await schedule.call("POST", "/pause")
    message = await schedule.call("POST", "/trigger")
    assert message["id"].startswith(f"{schedule.name}@")
    assert (await schedule.topic.pull_one())["body"] == "yearly"


async def test_schedules_of_a_file_return_after_redis_was_emptied(bench: Bench, topic: Topic) -> None:
    name = f"file-{uuid4().hex[:8]}"
    spec = Spec(topic=topic.name, timing=Timing(cron="0 0 1 1 *"), rules=Rules(missed=Missed.ALL), template=Template())
    loop = Loop(bench.pools, {name: spec})
    await bench.plan(loop)
    first = await Schedule(topic, name).look()
    assert (first["token_id"], first["missed"]) == ("file", "all")
    keys, store = bench.pools.default.context.records.keys, bench.pools.default.context.store
    for key in (keys.schedules, keys.schedule_wakes, keys.schedule_leases, keys.schedules_file, keys.schedule(name)):
        await store.command("DEL", key)
    assert (await topic.client.get(f"/v1/schedules/{name}")).status_code == 404
    await bench.plan(loop)
    assert (await Schedule(topic, name).look())["token_id"] == "file"
    # Another process that starts with the file changes nothing, and a pause stays.
    await Schedule(topic, name).call("POST", "/pause")
    await bench.plan(Loop(bench.pools, {name: spec}))
    assert (await Schedule(topic, name).look())["state"] == "paused"


async def test_one_schedule_too_many_is_refused(bench: Bench, schedule: Schedule) -> None:
    keys, store = bench.pools.default.context.records.keys, bench.pools.default.context.store
    names = [f"~{number}" for number in range(MOST)]
    await store.command("ZADD", keys.schedules, *(word for name in names for word in (0, name)))
    try:
        problem = await schedule.put(cron="0 0 1 1 *", expect=409)
        assert str(MOST) in problem["detail"]
    finally:
        await store.command("ZREM", keys.schedules, *names)
    assert (await schedule.put(cron="0 0 1 1 *"))["name"] == schedule.name


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "*/5 * * * *", "every": "5m"}, "cron"),
        ({}, "cron"),
        ({"cron": "* * * * *", "timezone": "Mars/Base"}, "timezone"),
        ({"every": "5m", "timezone": "Europe/Vienna"}, "timezone"),
        ({"cron": "* * * * *", "anchor": 0}, "anchor"),
        ({"cron": "* * * * *", "start": "2030-01-02T00:00:00Z", "end": "2030-01-01T00:00:00Z"}, "end"),
        ({"every": "999ms"}, "every"),
        ({"every": "5m", "jitter": "6m"}, "jitter"),
        ({"cron": "* * * * *", "jitter": "61m"}, "jitter"),
        ({"cron": "* * * * *", "end": "2020-01-01T00:00:00Z"}, "cron"),
        ({"cron": "* * * * *", "missed": "none"}, "missed"),
        ({"cron": "* * * * *", "missed": "all", "missed_max": 1_001}, "missed_max"),
        ({"cron": "* * * * *", "message": {"body": "x" * 60_000}}, "message"),
        ({"cron": "* * * * *", "message": {"body": "x", "delay": "5m"}}, "message.delay"),
    ],
)
async def test_wrong_schedule_is_refused_with_the_field(schedule: Schedule, fields: dict[str, Any], field: str) -> None:
    problem = await schedule.put(**fields, expect=422)
    assert field in {error["field"] for error in problem["errors"]}


async def test_unknown_schedule_is_404_and_a_wrong_name_422(topic: Topic) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/trigger"), ("GET", "/next")):
        answer = await topic.client.request(method, f"/v1/schedules/nobody{path}")
        assert answer.status_code == 404, answer.text
    assert (await topic.client.get("/v1/schedules/a%20b")).status_code == 422
