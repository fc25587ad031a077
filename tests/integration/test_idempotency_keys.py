"""Tests requests with an Idempotency-Key: a repeated one gets the answer to the first one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.service.sending.repeats import digest_of_request
from bridge.store.client import Store
from bridge.store.kept.answers import BYTES_A_KEY, MOST_BYTES, Progress, StoredAnswers
from bridge.store.keys import Keys
from bridge.store.replies import raw_fields, whole
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.topic import Json, Topic

MOST, HASH_BYTES = 8, 16


@pytest_asyncio.fixture(scope="module")
async def second(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a second bridge process on the same servers."""
    settings = {"BRIDGE_AMQP_URL": rabbit.amqp_url, "BRIDGE_REDIS_URL": redis_node.url, **PATIENT}
    process = ForkedBridge(local_dir / "keys" / "bridge.log", free_ports(1)[0], settings)
    await asyncio.to_thread(process.start)
    try:
        async with httpx2.AsyncClient(base_url=process.url, timeout=90) as client:
            yield client
    finally:
        await asyncio.to_thread(process.stop)


async def post(topic: Topic, key: str, given: Any, path: str = "/messages") -> httpx2.Response:
    return await topic.client.post(f"/v1/topics/{topic.name}{path}", json=given, headers={"Idempotency-Key": key})


def same(first: httpx2.Response, again: httpx2.Response) -> None:
    assert (again.status_code, again.content) == (first.status_code, first.content)
    for name in ("location", "content-type", "content-length"):
        assert again.headers.get(name) == first.headers.get(name)
    assert ("idempotent-replay" in first.headers, again.headers["idempotent-replay"]) == (False, "true")


@pytest.mark.parametrize(
    "given",
    [
        {"body": {"n": 1}, "delay": "1h"},
        {"body": 1, "id": "m-1", "delay": "1h"},
        {"body": "x" * 200_000, "delay": "1h", "labels": {"a": "1"}},
        {"body_base64": "AAH/", "content_type": "image/png", "delay": "1h"},
    ],
)
async def test_a_repeated_send_has_the_same_answer_through_any_process(
    topic: Topic, second: httpx2.AsyncClient, given: Json
) -> None:
    first = await post(topic, '"k-1"', given)
    assert first.status_code == 201
    same(first, await post(topic, '"k-1"', given))
    same(first, await post(topic.through(second), "k-1", given))
    assert (await topic.info())["counts"]["waiting"] == 1


async def test_a_repeated_send_has_the_same_answer_after_the_message_has_ended(
    topic: Topic, second: httpx2.AsyncClient
) -> None:
    given = {"body": 1, "id": "m-1"}
    first = await post(topic, "k-1", given)
    await topic.ack(await topic.pull_one())
    same(first, await post(topic, "k-1", given))
    same(first, await post(topic.through(second), "k-1", given))
    assert await topic.state("m-1") == "acked"
    assert (await topic.info())["counts"]["ready"] == 0


async def test_a_repeated_batch_has_the_same_answer(topic: Topic) -> None:
    given = {"messages": [{"body": 1, "delay": "1h"}, {"body": 2, "id": "m-2", "delay": "1h"}, {"delay": "1h"}]}
    first = await post(topic, "k-1", given, "/messages/batch")
    assert [one["status"] for one in first.json()["results"]] == [201, 201, 422]
    await topic.delete("m-2")
    same(first, await post(topic, "k-1", given, "/messages/batch"))
    assert (await topic.info())["counts"]["waiting"] == 1


async def test_an_error_by_the_state_is_an_answer_too(topic: Topic) -> None:
    await topic.send(id="m-1", delay="1h")
    given = {"body": 2, "id": "m-1", "if_exists": "error"}
    first = await post(topic, "k-1", given)
    assert first.status_code == 409
    await topic.delete("m-1")
    same(first, await post(topic, "k-1", given))


async def test_another_request_with_the_key_is_refused(topic: Topic) -> None:
    await post(topic, "k-1", {"body": 1, "delay": "1h"})
    refused = await post(topic, "k-1", {"body": 2, "delay": "1h"})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "Idempotency-Key")
    assert (await topic.info())["counts"]["waiting"] == 1


async def test_a_key_belongs_to_its_topic_and_operation(topic: Topic) -> None:
    other, given = topic.beside("other"), {"body": 1, "delay": "1h"}
    sent = [await post(topic, "k-1", given), await post(other, "k-1", given)]
    batch = await post(topic, "k-1", {"messages": [given]}, "/messages/batch")
    assert [one.status_code for one in (*sent, batch)] == [201, 201, 200]
    ids = {*(one.json()["id"] for one in sent), batch.json()["results"][0]["message"]["id"]}
    assert len(ids) == 3


async def test_an_invalid_request_leaves_the_key_free(topic: Topic) -> None:
    assert (await post(topic, "k-1", {"body": 1, "delay": "soon"})).status_code == 422
    assert (await post(topic, "k-1", {"body": 1, "delay": "1h"})).status_code == 201


async def test_a_repeated_request_while_the_first_is_under_way_is_refused(topic: Topic, store: Store) -> None:
    """Another process has begun the request, and then dies: its key is free after that."""
    given = {"body": 1}
    document = httpx2.Request("POST", "http://bridge", json=given).content
    key_id = digest_of_request(f"send\n{topic.name}\nk-1".encode())
    others = StoredAnswers(store, Keys("delay"), kept_ms=60_000, most=1_000)
    assert (await others.begin("anybody", key_id, digest_of_request(document), b"other")).progress is Progress.BEGUN
    refused = await post(topic, "k-1", given)
    assert (refused.status_code, refused.json()["type"][-18:]) == (409, ":request-under-way")
    assert refused.headers["Retry-After"] == "1"
    assert (await topic.info())["counts"]["ready"] == 0
    await others.end("anybody", key_id, b"other")
    assert (await post(topic, "k-1", given)).status_code == 201


@pytest.mark.parametrize("key", ['""', '"a', "a b", "x" * 256, '"é"'])
async def test_a_malformed_key_is_refused(topic: Topic, key: str) -> None:
    refused = await topic.client.post(
        f"/v1/topics/{topic.name}/messages", json={"body": 1}, headers=[(b"idempotency-key", key.encode("latin-1"))]
    )
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "Idempotency-Key")


async def test_a_bulk_action_is_done_once(topic: Topic) -> None:
    await topic.send(id="m-1", delay="1h")

    async def delete() -> httpx2.Response:
        given, headers = {"topic": topic.name, "state": ["waiting"]}, {"Idempotency-Key": topic.name}
        return await topic.client.post("/v1/messages:delete", json=given, headers=headers)

    first = await delete()
    assert (first.status_code, first.json()["done"]) == (200, 1)
    await topic.send(id="m-2", delay="1h")
    same(first, await delete())
    assert await topic.state("m-2") == "waiting"


# -- after a crash


@pytest.mark.parametrize("given", [{"body": 1}, {"body": 1, "id": "m-1"}])
async def test_a_try_after_a_crash_finds_the_message_that_was_sent_and_acknowledged(
    topic: Topic, store: Store, given: Json
) -> None:
    """A process sent the message, and died before it kept the answer."""
    first = await post(topic, "k-1", given)
    await topic.ack(await topic.pull_one())
    await forget_answers(store)
    again = await post(topic, "k-1", given)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (201, first.json()["id"], "acked")
    same(again, await post(topic, "k-1", given))
    counts = (await topic.info())["counts"]
    assert (counts["ready"], counts["acked"]) == (0, 1)


async def test_a_try_of_a_batch_after_a_crash_sends_what_is_missing(topic: Topic, store: Store) -> None:
    given = {"messages": [{"body": 1}, {"body": 2, "delay": "1h"}]}
    first = await post(topic, "k-1", given, "/messages/batch")
    await topic.ack(await topic.pull_one())
    lost = first.json()["results"][1]["message"]["id"]
    await store.command("DEL", f"delay/{{{topic.name}}}/m/{lost}")
    await forget_answers(store)
    again = await post(topic, "k-1", given, "/messages/batch")
    results = again.json()["results"]
    assert [one["status"] for one in results] == [201, 201]
    assert [one["message"]["state"] for one in results] == ["acked", "waiting"]
    assert [one["message"]["id"] for one in results] == [one["message"]["id"] for one in first.json()["results"]]


async def test_an_earlier_message_of_the_id_is_not_taken_for_that_of_the_try(topic: Topic, store: Store) -> None:
    await topic.send(1, id="m-1")
    await topic.ack(await topic.pull_one())
    given = {"body": 1, "id": "m-1"}
    first = await post(topic, "k-1", given)
    await topic.delete("m-1")
    await store.command("DEL", f"delay/{{{topic.name}}}/m/m-1")
    await forget_answers(store)
    again = await post(topic, "k-1", given)
    assert (first.status_code, again.status_code, again.json()["state"]) == (201, 201, "ready")


async def forget_answers(store: Store) -> None:
    """Leaves each key as a process does that dies before it keeps an answer."""
    script = (
        "for _, id in ipairs(redis.call('HKEYS', KEYS[1])) do if id ~= 'bytes' then "
        "local print, _, holder = cmsgpack.unpack(redis.call('HGET', KEYS[1], id)) "
        "redis.call('HSET', KEYS[1], id, cmsgpack.pack(print, 0, holder, '')) end end"
    )
    await store.command("EVAL", script, 1, Keys("delay").answers("anybody")[0])


# -- bounds


@pytest_asyncio.fixture
async def answers(store: Store) -> StoredAnswers:
    return StoredAnswers(store, Keys(f"bounds-{uuid4().hex[:8]}"), kept_ms=60_000, most=MOST)


async def answered(answers: StoredAnswers, key: int, answer: bytes, who: str = "me") -> Progress:
    key_id = key.to_bytes(HASH_BYTES)
    begun = await answers.begin(who, key_id, b"f", b"h")
    await answers.end(who, key_id, b"h", answer=answer)
    return begun.progress


async def kept(store: Store, answers: StoredAnswers, who: str = "me") -> tuple[int, int, int]:
    """How many keys are kept, in both forms, and their bytes as they are counted."""
    hashed, begun = answers._keys.answers(who)
    values = raw_fields(await store.command("HGETALL", hashed))
    counted = int(values.pop(b"bytes"))
    assert counted == sum(map(len, values.values()))
    assert await store.command("ZCARD", begun) == len(values)
    assert 0 < whole(await store.command("PTTL", hashed)) <= 60_000
    assert not values or 0 < whole(await store.command("PTTL", begun)) <= 60_000
    return len(values), whole(await store.command("ZCARD", begun)), counted


async def test_no_more_keys_of_one_token_are_kept_than_the_setting_says(store: Store, answers: StoredAnswers) -> None:
    for key in range(3 * MOST):
        assert await answered(answers, key, b"%d" % key) is Progress.BEGUN
    assert (await kept(store, answers))[0] == MOST
    assert await answered(answers, 3 * MOST - 1, b"") is Progress.ANSWERED
    assert await answered(answers, 0, b"") is Progress.BEGUN
    assert await answered(answers, 3 * MOST - 1, b"", who="other") is Progress.BEGUN
    assert (await kept(store, answers, "other"))[0] == 1


async def test_answers_have_a_kibibyte_each_on_average(store: Store, answers: StoredAnswers) -> None:
    for key in range(3 * MOST):
        await answered(answers, key, b"x" * (BYTES_A_KEY + key * 100))
        assert (await kept(store, answers))[2] <= MOST * BYTES_A_KEY
    await answered(answers, 99, b"x" * MOST * BYTES_A_KEY)
    assert (await kept(store, answers))[2] <= MOST * BYTES_A_KEY


async def test_an_answer_that_is_too_long_is_not_kept(answers: StoredAnswers) -> None:
    assert await answered(answers, 1, b"x" * (MOST_BYTES + 1)) is Progress.BEGUN
    assert await answered(answers, 1, b"short") is Progress.AGAIN
    assert await answered(answers, 1, b"") is Progress.ANSWERED


async def test_a_key_is_forgotten_after_its_time(store: Store) -> None:
    answers = StoredAnswers(store, Keys(f"bounds-{uuid4().hex[:8]}"), kept_ms=1, most=MOST)
    assert await answered(answers, 1, b"answer") is Progress.BEGUN
    while (progress := await answered(answers, 1, b"answer")) is not Progress.BEGUN:
        assert progress is Progress.ANSWERED


async def test_a_late_try_does_not_change_the_answer_of_the_one_that_took_over(answers: StoredAnswers) -> None:
    key = bytes(HASH_BYTES)
    await answers.begin("me", key, b"f", b"first")
    await answers.end("me", key, b"first")
    assert (await answers.begin("me", key, b"f", b"second")).progress is Progress.AGAIN
    await answers.end("me", key, b"first", answer=b"late")
    await answers.end("me", key, b"second", answer=b"answer")
    await answers.end("me", key, b"second", answer=b"other")
    assert (await answers.begin("me", key, b"f", b"third")).answer == b"answer"
    assert (await answers.begin("me", key, b"g", b"third")).progress is Progress.OTHER
