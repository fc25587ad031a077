"""Tests acks and nacks beside a pull: a result for each, at once, whatever becomes of the pull."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2

from bridge.service.protocol import receipts
from tests.integration.amqp import Amqp
from tests.integration.topic import Json, Topic
from tests.waiting import pause


async def settle(topic: Topic, **settled: Any) -> Json:
    """Settles beside a pull that does not wait. Returns the results of each list, and the messages."""
    answer: Json = await topic.call("POST", "/pull", {"wait": 0, **settled})
    lists = {name: [(one["id"], one["result"]) for one in answer[name]] for name in answer.keys() & {"acked", "nacked"}}
    return {"messages": answer["messages"], **lists}


async def leased(topic: Topic, *ids: str, **fields: Any) -> dict[str, str]:
    """Sends and pulls messages. Returns their receipts by id."""
    for one in ids:
        await topic.send(id=one)
    messages: list[Json] = []
    while len(messages) < len(ids):
        messages += await topic.pull(max=10, **fields)
    return {message["id"]: message["receipt"] for message in messages}


async def test_each_receipt_has_its_result(topic: Topic) -> None:
    old = await leased(topic, "late", lease="1s")
    late = await topic.pull_one(lease="30s")
    assert late["id"] == "late"
    own = await leased(topic, "done", "failed", lease="30s")
    nobody = receipts.make(receipts.Receipt("nobody", 1, 1))
    settled = await settle(
        topic,
        ack=[own["done"], old["late"], nobody, "no receipt", own["done"]],
        nack=[
            {"receipt": own["failed"], "delay": "1h", "reason": "card refused"},
            {"receipt": own["failed"]},
            {"receipt": old["late"]},
            {"receipt": nobody},
            {"receipt": "no receipt"},
        ],
    )
    assert settled == {
        "messages": [],
        "acked": [("done", "acked"), ("late", "stale"), ("nobody", "unknown"), (None, "unknown"), ("done", "acked")],
        "nacked": [
            ("failed", "nacked"),
            ("failed", "stale"),
            ("late", "stale"),
            ("nobody", "unknown"),
            (None, "unknown"),
        ],
    }
    assert await topic.state("done") == "acked"
    failed = await topic.look("failed")
    assert (failed["state"], failed["reason"]) == ("waiting", "card refused")
    assert await topic.state("late") == "leased"


async def test_repeated_ack_is_answered_again_and_a_repeated_nack_is_stale(topic: Topic) -> None:
    own = await leased(topic, "done", "failed", lease="30s")
    wanted = {"ack": [own["done"]], "nack": [{"receipt": own["failed"], "delay": "1h"}]}
    assert await settle(topic, **wanted) == {
        "messages": [],
        "acked": [("done", "acked")],
        "nacked": [("failed", "nacked")],
    }
    assert await settle(topic, **wanted) == {
        "messages": [],
        "acked": [("done", "acked")],
        "nacked": [("failed", "stale")],
    }


async def test_nack_without_retries_makes_a_dead_letter(topic: Topic) -> None:
    await topic.send(id="m-1", max_retry=0)
    message = await topic.pull_one(lease="30s")
    assert (await settle(topic, nack=[{"receipt": message["receipt"]}]))["nacked"] == [("m-1", "nacked")]
    assert await topic.state("m-1") == "dead"


async def test_pull_takes_the_next_message_and_acks_the_one_before(topic: Topic) -> None:
    await topic.send_many({"id": "m-1", "body": 1}, {"id": "m-2", "body": 2})
    first = await topic.pull_one()
    answer = await topic.call("POST", "/pull", {"wait": "60s", "ack": [first["receipt"]]})
    (second,) = answer["messages"]
    assert {first["id"], second["id"]} == {"m-1", "m-2"}
    assert answer["acked"] == [{"id": first["id"], "result": "acked"}]
    assert "nacked" not in answer
    assert await topic.state(first["id"]) == "acked"


async def test_message_nacked_without_a_delay_may_come_in_the_same_answer(topic: Topic) -> None:
    own = await leased(topic, "m-1", lease="30s")
    wanted = {"wait": "60s", "nack": [{"receipt": own["m-1"], "delay": 0}]}
    answer = await topic.call("POST", "/pull", wanted)
    assert answer["nacked"] == [{"id": "m-1", "result": "nacked"}]
    assert [(one["id"], one["attempts"]) for one in answer["messages"]] == [("m-1", 2)]


async def test_ack_takes_effect_while_its_pull_waits(topic: Topic, amqp: Amqp) -> None:
    own = await leased(topic, "m-1", lease="60s")
    pulling = asyncio.create_task(topic.call("POST", "/pull", {"wait": "60s", "ack": [own["m-1"]]}))
    await topic.until_state("m-1", "acked")
    await amqp.until_consumers(topic.ready_queue, 1)
    assert not pulling.done()
    await topic.send(id="m-2")
    answer = await pulling
    assert [one["id"] for one in answer["messages"]] == ["m-2"]
    assert answer["acked"] == [{"id": "m-1", "result": "acked"}]


async def test_client_that_leaves_in_the_wait_has_acked(topic: Topic) -> None:
    own = await leased(topic, *(f"m-{number}" for number in range(10)), lease="60s")
    url = f"{topic.client.base_url}/v1/topics/{topic.name}/pull"
    for one, receipt in own.items():
        async with httpx2.AsyncClient(timeout=90) as client:
            leaving = asyncio.create_task(client.post(url, json={"wait": "60s", "ack": [receipt]}))
            for _ in range(int(one.removeprefix("m-"))):
                await asyncio.sleep(0)  # so that some leave before the bridge has the request, and some after
            if one == "m-9":
                await topic.until_state(one, "acked")
            leaving.cancel()
            await asyncio.wait((leaving,))
    assert await topic.state("m-9") == "acked"
    # The others are settled or not; none is lost.
    acked = await topic.ack_many(receipts=list(own.values()))
    assert acked == ["acked"] * 10


async def test_pull_from_several_topics_settles_in_each(topic: Topic) -> None:
    other = topic.beside("urgent")
    await other.put_policy()
    here, there = await leased(topic, "m-1", "m-2", lease="30s"), await leased(other, "m-1", lease="30s")
    body = {
        "topics": [other.name, topic.name],
        "ack": [{"topic": topic.name, "receipt": here["m-1"]}, {"topic": other.name, "receipt": there["m-1"]}],
        "nack": [{"topic": topic.name, "receipt": here["m-2"], "delay": "1h"}],
    }
    answer = (await topic.client.post("/v1/pull", json=body)).json()
    assert answer == {
        "messages": [],
        "acked": [{"id": "m-1", "result": "acked"}, {"id": "m-1", "result": "acked"}],
        "nacked": [{"id": "m-2", "result": "nacked"}],
    }
    assert [await topic.state("m-1"), await other.state("m-1"), await topic.state("m-2")] == [
        "acked",
        "acked",
        "waiting",
    ]


async def test_pull_from_a_paused_topic_settles(topic: Topic) -> None:
    own = await leased(topic, "m-1", lease="30s")
    await topic.call("POST", "/pause")
    assert await settle(topic, ack=[own["m-1"]]) == {"messages": [], "acked": [("m-1", "acked")]}
    await topic.call("POST", "/resume")


async def test_a_thousand_acks_and_a_hundred_nacks_go_along(topic: Topic) -> None:
    for start in range(0, 1_100, 100):
        await topic.send_many(*({"id": f"m-{start + number}", "body": 1} for number in range(100)))
    own: dict[str, str] = {}
    while len(own) < 1_100:
        own |= {one["id"]: one["receipt"] for one in await topic.pull(max=100, lease="10m")}
    given = list(own.values())
    nacks = [{"receipt": one, "delay": "1h"} for one in given[1_000:]]
    settled = await settle(topic, ack=given[:1_000], nack=nacks)
    assert {result for _, result in settled["acked"]} == {"acked"}
    assert {result for _, result in settled["nacked"]} == {"nacked"}
    while (counts := (await topic.info())["counts"])["acked"] != 1_000 or counts["waiting"] != 100:
        await pause()
