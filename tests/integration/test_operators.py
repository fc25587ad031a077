"""Tests what operators see and do: topics, pages of messages, pausing, removing, metrics, health."""

from __future__ import annotations

import asyncio
import re
from time import time

import orjson

from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import binary
from tests.integration.amqp import Amqp
from tests.integration.dead_letters import make_dead
from tests.integration.topic import Json, Topic, due_ms
from tests.waiting import pause

NOTHING = {"waiting": 0, "ready": 0, "leased": 0, "acked": 0, "expired": 0, "dead": 0, "deleted": 0}


async def test_topic_shows_its_counts_its_distribution_and_its_queues(topic: Topic) -> None:
    await topic.beside("unknown").call("GET", expect=404)
    delays = ("30s", "2m", "20m", "45m", "3h", "12h", "3d", "20d", "90d", "91d")
    await topic.send_many(*({"body": 1, "delay": delay} for delay in delays))
    gone = await topic.send(delay="1h")
    await topic.delete(gone["id"])
    await topic.send_many(*({"body": number} for number in range(4)))
    first, second = await topic.pull(max=2)
    await topic.ack(first)
    info = await topic.info()
    assert info["counts"] == {**NOTHING, "waiting": 10, "ready": 2, "leased": 1, "acked": 1, "deleted": 1}
    assert info["waiting_by_due"] == {
        "1m": 1, "10m": 1, "30m": 1, "1h": 1, "6h": 1, "1d": 1, "7d": 1, "30d": 1, "beyond": 2,
    }  # fmt: skip
    assert info["overdue"] == 0
    assert info["queues"] == {"ready": topic.ready_queue, "dead": topic.dead_queue}
    listed = (await topic.client.get("/v1/topics")).json()["topics"]
    assert info in listed
    assert second["state"] == "leased"


async def test_topic_shows_how_late_its_messages_were(topic: Topic) -> None:
    await topic.send(delay="1h")
    assert (await topic.info())["lateness_ms"] == {"p50": None, "p90": None, "p99": None, "max": None}
    await topic.send(delay=200)
    await topic.pull_one()
    # The lateness is recorded once the release is confirmed, which may be after the pull.
    while (lateness_ms := (await topic.info())["lateness_ms"])["max"] is None:
        await pause()
    assert 0 <= lateness_ms["p50"] == lateness_ms["max"]


async def test_lateness_in_a_new_topic_is_what_its_consumer_saw(topic: Topic) -> None:
    new = topic.beside("new")
    sent = await new.send(delay=200)
    await new.pull_one()
    had_ms = time() * 1_000 - due_ms(sent)
    while (late_ms := (await new.info())["lateness_ms"]["max"]) is None:
        await pause()
    shown_ms = time() * 1_000 - due_ms(sent)
    # The release counts once the new queue has settled, over a second later than the consumer has the message. The
    # confirm comes at about the moment of the consumer.
    assert late_ms < (had_ms + shown_ms) / 2


async def test_put_policy_replaces_the_whole_policy(topic: Topic) -> None:
    put = await topic.put_policy(max_retry=5, backoff={"first": "1s", "factor": 3, "max": "1m"})
    assert (await topic.info())["policy"] == put
    assert put["backoff"] == {"first_ms": 1_000, "factor": 3.0, "max_ms": 60_000}
    assert (await topic.put_policy(lease="1m"))["max_retry"] is None


async def test_pause_and_resume_keep_the_rest_of_the_policy(topic: Topic) -> None:
    unknown = topic.beside("unknown")
    for call in ("pause", "resume"):
        await unknown.call("POST", f"/{call}", expect=404)
    await unknown.call("PATCH", "", {"paused": True}, expect=404)
    put = await topic.put_policy(max_retry=5, ttl="1h", backoff=["5s", "1m"])
    assert await topic.call("POST", "/pause") == {**put, "paused": True}
    assert await topic.call("POST", "/resume") == put
    assert await topic.call("PATCH", "", {"paused": True, "ttl": None}) == {**put, "paused": True, "ttl_ms": None}
    assert (await topic.info())["policy"] == {**put, "paused": True, "ttl_ms": None}


async def test_none_of_several_concurrent_patches_is_lost(topic: Topic) -> None:
    wanted: list[Json] = [{"max_retry": 5}, {"ttl": 60_000}, {"lease": 30_000}, {"backoff": [5]}, {"release": "direct"}]
    for _ in range(5):
        await topic.put_policy()
        await asyncio.gather(*(topic.call("PATCH", "", patch) for patch in wanted))
        assert (await topic.info())["policy"] == {
            "release": "direct",
            "max_retry": 5,
            "ttl_ms": 60_000,
            "lease_ms": 30_000,
            "backoff": {"steps_ms": [5]},
            "paused": False,
            "keep_body_max": None,
        }


async def test_patch_keeps_the_fields_of_a_newer_bridge(topic: Topic, store: Store) -> None:
    await topic.put_policy()
    key = Keys("delay").policy(topic.name)
    await store.command("SET", key, orjson.dumps({"release": "checked", "color": "of tomorrow"}))
    await topic.call("PATCH", "", {"max_retry": 5})
    stored = orjson.loads(binary(await store.command("GET", key)))
    assert (stored["color"], stored["max_retry"]) == ("of tomorrow", 5)


async def test_messages_are_listed_by_due_time_state_and_page(topic: Topic) -> None:
    await topic.put_policy()
    sent = [await topic.send(id=f"w-{hours}", delay=f"{hours}h") for hours in (5, 1, 3, 2, 4)]
    sent.sort(key=due_ms)
    await topic.send(id="ready")
    await topic.send(id="gone", delay="6h")
    await topic.delete("gone")

    async def ids(query: str) -> list[str]:
        return [item["id"] for item in (await topic.call("GET", f"/messages?{query}"))["items"]]

    waiting = ["w-1", "w-2", "w-3", "w-4", "w-5"]
    assert await ids("state=waiting") == waiting
    assert await ids("state=ready,waiting") == await ids("state=ready&state=waiting") == ["ready", *waiting]
    assert await ids("") == ["ready", *waiting, "gone"]
    assert await ids("state=dead") == []
    assert await ids(f"state=waiting&due_after={sent[1]['due_at']}&due_before={sent[4]['due_at']}") == ["w-3", "w-4"]
    assert await ids(f"due_before={due_ms(sent[0])}") == ["ready"]

    pages, query = [], "state=waiting&limit=2"
    while True:
        page = await topic.call("GET", f"/messages?{query}")
        pages.append([item["id"] for item in page["items"]])
        if page["next_cursor"] is None:
            break
        query = f"state=waiting&limit=2&cursor={page['next_cursor']}"
    assert pages == [["w-1", "w-2"], ["w-3", "w-4"], ["w-5"]]


async def test_cursor_skips_no_message_due_at_the_same_instant(topic: Topic) -> None:
    at_ms = due_ms(await topic.send(id="first", delay="2h"))
    await topic.send_many(*({"id": f"m-{number:02}", "body": 1, "deliver_at": at_ms} for number in range(9)))
    await topic.move("m-03", delay="1h")
    seen: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        after = f"&cursor={cursor}" if cursor else ""
        page = await topic.call("GET", f"/messages?state=waiting&limit=4{after}")
        seen += [item["id"] for item in page["items"]]
        cursor = page["next_cursor"]
    assert seen == ["m-03", "first", "m-00", "m-01", "m-02", "m-04", "m-05", "m-06", "m-07", "m-08"]
    await topic.call("GET", "/messages?cursor=bm9uc2Vuc2U", expect=422)


async def test_paused_topic_delivers_nothing_until_it_is_resumed(topic: Topic) -> None:
    await topic.send(id="ready")
    await topic.call("POST", "/pause")
    await topic.send(id="now")
    await topic.send(id="due", delay=200)
    other = topic.beside("other")
    await other.send(id="marker", delay=500)
    assert await other.drain("marker") == []
    assert await topic.pull(wait=0) == []
    assert {one: await topic.state(one) for one in ("now", "due")} == {"now": "waiting", "due": "waiting"}
    poll = await other.send(id="second", delay=300)
    assert await other.drain(poll["id"]) == []
    await topic.call("POST", "/resume")
    assert sorted(await topic.pull_ids(3)) == ["due", "now", "ready"]


async def test_poll_of_a_paused_topic_is_answered_after_it_is_resumed(topic: Topic) -> None:
    await topic.send(id="ready")
    await topic.put_policy(paused=True)
    assert await topic.pull(wait=50) == []
    messages = topic.pull_one()
    await topic.put_policy(paused=False)
    assert (await messages)["id"] == "ready"


async def test_topic_with_messages_is_removed_only_by_force(topic: Topic, amqp: Amqp) -> None:
    await topic.beside("unknown").call("DELETE", expect=404)
    await topic.send(id="waiting", delay=700)
    await topic.send(id="ready")
    refused = await topic.call("DELETE", expect=409)
    assert refused["type"].endswith(":topic-not-empty")
    assert await topic.call("DELETE", "?force=true") == {"topic": topic.name, "removed": True}
    await topic.call("GET", expect=404)
    assert [await amqp.count(queue) for queue in (topic.ready_queue, topic.dead_queue)] == [None, None]
    assert await topic.state("waiting") == "deleted"
    await topic.send(id="marker", delay="1s")
    assert await topic.drain("marker") == []


async def test_removed_topic_stays_removed_when_its_copies_come_due(
    topic: Topic, amqp: Amqp, redis_node: RedisNode
) -> None:
    await topic.send(id="waiting", delay=500)
    await topic.send(id="acked")
    await topic.ack(await topic.pull_one(lease="2s"))
    await topic.call("DELETE", "?force=true")
    later = topic.beside("later")
    await later.send(delay="3s")
    await later.pull_one()
    await topic.call("GET", expect=404)
    assert [await amqp.count(queue) for queue in (topic.ready_queue, topic.dead_queue)] == [None, None]
    store = Store(redis_node.url, timeout_ms=10_000)
    left = [key for key in Keys("delay").indexes(topic.name, 0) if await store.command("EXISTS", key)]
    await store.close()
    assert left == []
    assert await topic.state("waiting") == "deleted"


async def test_topic_whose_queues_hold_messages_that_redis_does_not_know_is_removed_only_by_force(
    topic: Topic, amqp: Amqp
) -> None:
    await make_dead(topic, "dropped")
    await topic.call("DELETE", "/dead")
    queues = {topic.ready_queue: 3, topic.dead_queue: 2}
    for queue, count in queues.items():
        for _ in range(count):
            await amqp.publish("", queue)
    while [await amqp.count(queue) for queue in queues] != [3, 2]:
        await pause()
    refused = await topic.call("DELETE", expect=409)
    assert refused["type"].endswith(":topic-not-empty")
    for queue, count in queues.items():
        assert f"{count} in the queue {queue}" in refused["detail"]
        assert await amqp.count(queue) == count
    await topic.call("DELETE", "?force=true")
    assert [await amqp.count(queue) for queue in queues] == [None, None]


async def test_topic_whose_queue_is_missing_is_removed(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy()
    await amqp.delete_queue(topic.ready_queue)
    assert await topic.call("DELETE") == {"topic": topic.name, "removed": True}


async def test_removed_topic_can_be_used_again(topic: Topic, amqp: Amqp) -> None:
    await topic.put_policy(max_retry=9)
    await topic.send(id="m-1")
    await topic.ack(await topic.pull_one())
    await topic.call("DELETE")
    assert await amqp.count(topic.ready_queue) is None
    assert topic.name not in [one["topic"] for one in (await topic.client.get("/v1/topics")).json()["topics"]]
    assert (await topic.send(id="m-2", delay=100))["max_retry"] == 3
    assert (await topic.pull_one())["id"] == "m-2"


async def test_topic_works_with_the_policy_of_a_newer_bridge(topic: Topic, store: Store) -> None:
    other = topic.beside("newer")
    policy = {"release": "checked", "max_retry": 9, "ttl_ms": None, "lease_ms": None, "backoff": None, "paused": False}
    await store.command("SET", Keys("delay").policy(other.name), orjson.dumps({**policy, "color": "of tomorrow"}))
    assert (await other.send(id="m-1", delay=100))["max_retry"] == 9
    assert (await other.pull_one())["id"] == "m-1"
    assert "color" not in (await other.info())["policy"]
    await other.call("PUT", "", {"color": "of tomorrow"}, expect=422)


async def counted(topic: Topic) -> dict[str, float]:
    """The topic's counters, by name, and by reason if they have one."""
    text = (await topic.client.get("/metrics")).text
    pattern = rf'^delaybridge_(\w+)_total{{(?:reason="(\w+)",)?topic="{re.escape(topic.name)}"}} (\S+)$'
    found = re.findall(pattern, text, re.MULTILINE)
    counters = {f"{name} {reason}".strip(): float(value) for name, reason, value in found}
    counters.pop("released_late", None)  # a busy machine is late
    return counters


async def test_counters_follow_the_life_of_messages(topic: Topic, amqp: Amqp) -> None:
    assert await counted(topic) == {}
    await topic.put_policy(max_retry=1)
    await topic.send(id="acked", delay=100)
    await topic.ack(await topic.pull_one())
    await topic.send(id="doomed", delay="1.5s")
    await topic.delete("doomed")
    await topic.send(id="refused", delay=100)
    async with amqp.consume(topic.ready_queue) as arrivals:
        for _ in range(2):
            await (await arrivals.get()).reject(requeue=False)
    await topic.until_state("refused", "dead")
    await topic.send(id="short", delay=100, ttl="2s")
    await topic.until_state("short", "expired")
    wanted = {
        "accepted": 4, "released": 4, "delivered": 1, "acked": 1, "deleted": 1, "retried": 1, "dead rejected": 1,
        "expired": 1, "ghosts_dropped": 1,
    }  # fmt: skip
    # Releases and ghosts are counted after the broker has settled them, so the counters may lag.
    while (now := await counted(topic)) != wanted:
        assert all(now[name] <= most for name, most in wanted.items() if name in now), now
        await pause()


async def test_gauges_count_the_messages_of_a_topic_by_state(topic: Topic) -> None:
    await topic.send(delay="1h")
    text = (await topic.client.get("/metrics")).text
    assert f'delaybridge_messages{{state="waiting",topic="{topic.name}"}} 1.0' in text
    assert 'delaybridge_up{part="checkpoint"} 1.0' in text


async def test_healthy_bridge_is_ready(topic: Topic) -> None:
    live, ready = await topic.client.get("/health/live"), await topic.client.get("/health/ready")
    assert (live.status_code, ready.status_code) == (200, 200)
    parts = ready.json()["parts"]
    assert {"broker", "store", "checkpoint"} <= parts.keys()
    assert set(parts.values()) == {"ok"}
