"""Tests that the audit sends purged messages again and leaves late ones alone."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.loops.audit import Audit, Pass
from bridge.model.errors import BrokerUnavailable
from tests.command import command
from tests.integration.own import Own, own_bridge
from tests.integration.topic import Json, due_ms
from tests.waiting import pause

NowMs = Callable[[], Awaitable[int]]
GRACE_MS = 1_000
RUN_EVERY_S = 0.25  # a run of the command takes the time of many looks
SLOT_OF_FOUR_SECONDS = "delay.000d-00h-00m-03s"  # holds a message with a delay of 4 s, which aims 100-200 ms short
SLOT_OF_A_LEASE_OF_FOUR_SECONDS = "delay.000d-00h-00m-04s"
BY_HAND = pytest.mark.parametrize("own", ["not_auditing"], indirect=True)


@pytest_asyncio.fixture(scope="module")
async def auditing(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge that audits every second."""
    settings = {"BRIDGE_AUDIT_GRACE": str(GRACE_MS), "BRIDGE_AUDIT_EVERY": "1s"}
    async with own_bridge(rabbit, redis_node.url, local_dir, **settings) as own:
        yield own


@pytest_asyncio.fixture(scope="module")
async def not_auditing(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge that leaves audits to the command."""
    settings = {"BRIDGE_AUDIT_GRACE": str(GRACE_MS), "BRIDGE_AUDIT_EVERY": "0"}
    async with own_bridge(rabbit, redis_node.url, local_dir, **settings) as own:
        yield own


@pytest.fixture
def own(request: pytest.FixtureRequest) -> Own:
    """A bridge that audits every second, or the bridge that the parameter names, with a topic for this test only."""
    bridge: Own = request.getfixturevalue(getattr(request, "param", "auditing"))
    return bridge.with_fresh_topic()


async def purge(own: Own, queue: str) -> int:
    """Purges the queue. Returns the number of messages removed."""
    async with own.amqp.connection.channel() as channel:
        purged = await (await channel.get_queue(queue, ensure=False)).purge()
    return purged.message_count or 0


async def by_hand(own: Own, *options: str) -> tuple[int, list[Json]]:
    """Runs `delaybridge audit`. Returns its exit code and its findings."""
    ended = await command("audit", "--json", *options, settings=own.bridge.environment())
    assert ended.exit_code in (0, 1), ended.stderr
    return ended.exit_code, json.loads(ended.stdout) if ended.stdout else []


async def listed_by_hand(own: Own, *options: str) -> Json:
    """Runs the command until it lists a message. The test's time limit ends the wait."""
    while not (listed := (await by_hand(own, *options))[1]):
        await pause(RUN_EVERY_S)
    (message,) = listed
    return message


async def measured(own: Own, name: str) -> float | None:
    """The topic's value of a metric. None when it is missing."""
    text = (await own.topic.client.get("/metrics")).text
    found = re.search(rf'^delaybridge_{name}{{topic="{re.escape(own.topic.name)}"}} (\S+)$', text, re.MULTILINE)
    return None if found is None else float(found[1])


def overdue_events(own: Own, *topics: str) -> list[Json]:
    """Returns what the bridge has logged about overdue messages of these topics."""
    lines = own.bridge.log_file.read_text().splitlines()
    events = [json.loads(line) for line in lines if '"audit.overdue"' in line]
    return [event for event in events if event["topic"] in topics]


async def nothing_else_comes(own: Own) -> bool:
    """Whether two more audits deliver nothing."""
    await own.topic.send(id="marker", delay="3s")
    return await own.topic.drain("marker") == []


async def test_message_purged_with_its_slot_is_delivered_once(own: Own, store_now_ms: NowMs) -> None:
    ids = [f"m-{number:03}" for number in range(150)]
    await own.topic.put_policy()  # declares its queues
    due_at_ms = await store_now_ms() + 4_000
    await own.topic.send_many(*({"id": one, "body": one, "deliver_at": due_at_ms} for one in ids))
    assert await purge(own, SLOT_OF_FOUR_SECONDS) == 1  # one bundle has them all, as they are due at one moment
    assert sorted(await own.topic.pull_ids(len(ids), max=100)) == ids
    assert await nothing_else_comes(own)
    assert {(await own.topic.look(one))["attempts"] for one in ids} == {1}
    assert await measured(own, "resent_total") == len(ids)
    while await measured(own, "overdue") != 0:
        await pause()
    # On a slow machine the marker is late enough to be overdue itself.
    events = [event for event in overdue_events(own, own.topic.name) if event["id"] != "marker"]
    assert sorted(event["id"] for event in events) == ids
    assert all(event["body_kept"] and event["overdue_ms"] >= GRACE_MS for event in events)


async def test_lease_whose_copy_was_purged_still_ends(own: Own) -> None:
    await own.topic.send(id="again")
    await own.topic.send(id="last", max_retry=0)
    leased = [*await own.topic.pull(lease="4s"), *await own.topic.pull(lease="4s")]
    assert await purge(own, SLOT_OF_A_LEASE_OF_FOUR_SECONDS) == len(leased) == 2
    again = await own.topic.pull_one()
    assert (again["id"], again["attempts"]) == ("again", 2)
    await own.topic.ack(again)
    dead = await own.topic.until_state("last", "dead")
    assert (dead["attempts"], dead["reason"]) == (1, "retries used up")
    assert await nothing_else_comes(own)
    # On a slow machine two audits may send it again. Then it has two dead letters, and the record names one.
    assert await own.topic.call("POST", "/dead/replay", {"max": 10}) == {"replayed": 1}
    assert await own.topic.pull_ids(1) == ["last"]
    assert await nothing_else_comes(own)


async def test_purged_message_past_its_ttl_expires(own: Own) -> None:
    await own.topic.send(id="short", delay="4s", ttl=500)
    assert await purge(own, SLOT_OF_FOUR_SECONDS) == 1
    await own.topic.until_state("short", "expired")
    assert await nothing_else_comes(own)


async def test_overdue_message_without_a_kept_body_is_reported_only(own: Own) -> None:
    await own.topic.send("x" * 70_000, id="large", delay="4s")
    assert await purge(own, SLOT_OF_FOUR_SECONDS) == 1
    one = await listed_by_hand(own, "--repair")
    assert (one["id"], one["body_kept"], one["done"]) == ("large", False, None)
    while await measured(own, "overdue") != 1:
        await pause()
    assert await own.topic.state("large") == "waiting"


async def test_message_released_directly_is_not_reported_as_overdue(own: Own) -> None:
    now_direct, was_direct, other = own.topic.beside("a"), own.topic.beside("b"), own.topic.beside("c")
    await now_direct.send(delay="2s")
    await now_direct.put_policy(release="direct")
    await was_direct.put_policy(release="direct")
    await was_direct.send(delay="2s")
    for topic in (now_direct, was_direct):
        await own.amqp.take(topic.ready_queue)
    await was_direct.put_policy(release="checked")
    await other.send(id="marker", delay="4s")
    assert await other.drain("marker") == []
    assert [await topic.pull(wait=0) for topic in (now_direct, was_direct)] == [[], []]
    # The marker may be overdue on a slow machine.
    assert overdue_events(own, now_direct.name, was_direct.name) == []


@BY_HAND
async def test_audit_command_changes_nothing_without_repair(own: Own) -> None:
    sent = await own.topic.send(id="m-1", delay="4s")
    assert await purge(own, SLOT_OF_FOUR_SECONDS) == 1
    one = await listed_by_hand(own)
    assert (one["topic"], one["id"], one["state"]) == (own.topic.name, "m-1", "waiting")
    assert (one["body_kept"], one["done"]) == (True, None)
    assert one["overdue_ms"] >= GRACE_MS
    assert await nothing_else_comes(own)
    assert await own.topic.look("m-1") == sent
    code, (again,) = await by_hand(own)
    assert (code, again["id"]) == (1, "m-1")
    code, (repaired,) = await by_hand(own, "--repair")
    assert (code, repaired["done"]) == (0, "resent")
    assert await own.topic.pull_ids(1) == ["m-1"]
    assert await by_hand(own, "--repair") == (0, [])
    assert await nothing_else_comes(own)
    actions = (await own.topic.client.get("/v1/actions?limit=2")).json()["items"]
    assert [(one["what"], one["who"], one["count"]) for one in actions] == [
        ("repair", "command line", 0),
        ("repair", "command line", 1),
    ]


@BY_HAND
@pytest.mark.parametrize("away", [False, True])
async def test_repairs_before_the_audit_stopped_are_told(own: Own, monkeypatch: pytest.MonkeyPatch, away: bool) -> None:
    await own.topic.send(id="m-1", delay="4s")
    assert await purge(own, SLOT_OF_FOUR_SECONDS) == 1
    await listed_by_hand(own)
    passes = 0
    run_once = Audit.run_once

    async def stopped(audit: Audit, *, repair: bool) -> Pass | None:
        nonlocal passes
        passes += 1
        if passes == 1 and (first := await run_once(audit, repair=repair)) is not None:
            return replace(first, last=False)
        if away:
            raise BrokerUnavailable("away")
        return None

    monkeypatch.setattr(Audit, "run_once", stopped)
    ended = await command("audit", "--json", "--repair", settings=own.bridge.environment())

    assert ended.exit_code == 1
    assert [(one["id"], one["done"]) for one in json.loads(ended.stdout)] == [("m-1", "resent")]
    assert ("away" if away else "fallen behind") in ended.stderr
    (action,) = (await own.topic.client.get("/v1/actions?limit=1")).json()["items"]
    assert (action["what"], action["count"]) == ("repair", 1)
    assert await own.topic.pull_ids(1) == ["m-1"]


@BY_HAND
async def test_audit_sends_nothing_again_while_the_checkpoint_is_late(own: Own, store_now_ms: NowMs) -> None:
    sent = await own.topic.send(id="m-1", delay="3s")
    own.bridge.kill()
    late_ms = 0
    while late_ms <= GRACE_MS:
        late_ms = await store_now_ms() - due_ms(sent)
        code, listed = await by_hand(own, "--repair")
        assert listed == []
        await pause(RUN_EVERY_S)
    assert code == 1
    await asyncio.to_thread(own.bridge.start)
    assert await own.topic.pull_ids(1) == ["m-1"]
    assert await nothing_else_comes(own)
    assert await measured(own, "ghosts_dropped_total") is None
