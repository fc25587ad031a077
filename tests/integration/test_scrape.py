"""Tests what a scrape shows of messages, and what it asks of Redis."""

from __future__ import annotations

import asyncio
import re
from math import ceil

import httpx2

from tests.integration.topic import Topic
from tests.waiting import pause

Samples = dict[str, float]
AT_ONCE = 100


async def scraped(client: httpx2.AsyncClient) -> Samples:
    """The samples of a page, by name and labels as they are written."""
    lines = (await client.get("/metrics")).text.splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines) if name[:1] != "#"}


async def shown(topic: Topic, metric: str, **labels: str) -> float | None:
    written = ",".join(f'{name}="{value}"' for name, value in sorted({**labels, "topic": topic.name}.items()))
    return (await scraped(topic.client)).get(f"delaybridge_{metric}{{{written}}}")


async def test_waiting_messages_are_shown_by_due_moment(topic: Topic) -> None:
    for delay in ("30s", "30m", "31m", "5h", "2d"):
        await topic.send(delay=delay)
    due = {
        one: await shown(topic, "waiting_messages", due=one) for one in ("overdue", "minute", "hour", "day", "later")
    }
    assert due == {"overdue": 0, "minute": 1, "hour": 2, "day": 1, "later": 1}
    assert await shown(topic, "oldest_overdue_seconds") == 0


async def test_age_of_the_oldest_ready_message_grows_until_it_is_consumed(topic: Topic) -> None:
    await topic.send(id="old", delay=0)
    await topic.send(id="young", delay=0)
    while not (first := await shown(topic, "oldest_ready_seconds")):
        await pause()
    while (later := await shown(topic, "oldest_ready_seconds")) is None or later <= first:
        await pause()
    assert await topic.pull_ids(2)
    assert await shown(topic, "oldest_ready_seconds") == 0


async def test_paused_topic_has_overdue_messages_and_none_counts_as_late(topic: Topic) -> None:
    await topic.put_policy(paused=True)
    await topic.send(delay=100)
    while not await shown(topic, "waiting_messages", due="overdue"):
        await pause()
    assert await shown(topic, "oldest_overdue_seconds") == 0


async def test_lease_that_ends_is_counted_and_its_last_one_makes_a_dead_letter(topic: Topic) -> None:
    await topic.put_policy(max_retry=1)
    await topic.send(id="m-1", delay=0)
    for _ in range(2):
        await topic.pull_one(lease="1s")
    await topic.until_state("m-1", "dead")
    while await shown(topic, "dead_total", reason="lease_ended") != 1:
        await pause()
    assert await shown(topic, "leases_expired_total") == 2
    assert await shown(topic, "messages", state="dead") == 1


async def test_extended_lease_that_ends_is_counted_once_and_a_nack_never(topic: Topic) -> None:
    await topic.send(id="m-1", delay=0)
    await topic.nack(await topic.pull_one(), delay="300ms")
    pulled = await topic.pull_one(lease="1s")
    await topic.extend(pulled, "2s")
    await topic.ack(await topic.pull_one())
    while not await shown(topic, "leases_expired_total"):
        await pause()
    assert await shown(topic, "leases_expired_total") == 1


async def test_message_nacked_for_the_last_time_is_a_dead_letter_with_its_reason(topic: Topic) -> None:
    await topic.put_policy(max_retry=0)
    await topic.send(id="m-1", delay=0)
    await topic.nack(await topic.pull_one())
    assert await shown(topic, "dead_total", reason="nacked") == 1


async def test_acks_are_timed_one_by_one_and_together(topic: Topic) -> None:
    async def timed() -> float:
        return (await scraped(topic.client))["delaybridge_due_to_ack_seconds_count"]

    before = await timed()
    await topic.send_many(*({"id": f"m-{number}", "body": 1} for number in range(3)))
    pulled = [await topic.pull_one(max=1) for _ in range(3)]
    await topic.ack(pulled[0])
    await topic.ack_many(receipts=[one["receipt"] for one in pulled[1:]])
    assert await timed() == before + 3


async def test_scrape_asks_redis_in_round_trips_of_a_hundred_topics(topic: Topic) -> None:
    async def round_trips() -> float:
        return (await scraped(topic.client))['delaybridge_store_seconds_count{script="counts"}']

    topics = len((await topic.client.get("/v1/topics")).json()["topics"])
    before = await round_trips()
    # Of the pool of fresh topics one more may be made meanwhile. Topics that were just removed are looked at once more.
    assert ceil(topics / AT_ONCE) <= await round_trips() - before <= ceil((topics + 1) / AT_ONCE) + 1


async def test_scrape_shows_the_process_and_what_it_works_with(topic: Topic) -> None:
    await topic.send(delay=0)
    await topic.pull_ids(1)
    page = await scraped(topic.client)
    assert page["delaybridge_http_connections"] >= 1
    assert page["delaybridge_publish_confirm_seconds_count"] >= 1
    assert page["delaybridge_checkpoint_batch_size_count"] >= 1
    assert page["delaybridge_checkpoint_held"] >= 0
    assert page['delaybridge_broker_blocked{part="broker"}'] == 0
    assert page['delaybridge_queue_messages{part="broker",queue="refused"}'] >= 0
    assert abs(page['delaybridge_clock_skew_seconds{part="store"}']) < 1
    assert page["process_resident_memory_bytes"] > 1_000_000
    assert page['delaybridge_last_run_timestamp_seconds{part="watch"}'] > page["process_start_time_seconds"]
    assert any(re.match(r'delaybridge_build_info\{python="3\.\d+\.\d+",version="[\w.]+"\}', name) for name in page)


async def test_pull_that_waits_is_shown_while_it_waits(topic: Topic) -> None:
    waiting = asyncio.create_task(topic.pull_ids(1))
    while not (await scraped(topic.client))["delaybridge_http_waiting_pulls"]:
        await pause()
    await topic.send(delay=0)
    await waiting
