"""Tests that a search finds messages over topics, by each of its parameters, and shows them as they are."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.replies import binaries
from tests.integration.amqp import Amqp
from tests.integration.dead_letters import bury_next
from tests.integration.topic import Json, Topic


async def search(topic: Topic, of: str = "*", **params: Any) -> list[Json]:
    """The items of all pages. `of`: the rest of the pattern, behind the topic's name."""
    items: list[Json] = []
    query: dict[str, Any] = {"topic": topic.name + of, **params}
    while True:
        answer = await topic.client.get("/v1/messages", params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        items += page["items"]
        if page["next_cursor"] is None:
            return items
        query["cursor"] = page["next_cursor"]


async def found(topic: Topic, of: str = "*", **params: Any) -> list[tuple[str, str]]:
    """The messages of a search: the end of the topic's name, and the id."""
    return [(item["topic"].removeprefix(topic.name), item["id"]) for item in await search(topic, of, **params)]


async def labels_left(topic: Topic, store: Store) -> list[bytes]:
    return binaries(await store.command("ZRANGE", Keys("delay").indexes(topic.name, 0)[-1], 0, -1))


async def test_search_merges_topics_by_due_time_in_both_orders(topic: Topic) -> None:
    other = topic.beside("x")
    at = "2027-01-01T00:00:00Z"
    await topic.send_many(*({"id": f"a-{hour}", "body": 1, "delay": f"{hour}h"} for hour in (1, 3, 5)))
    await other.send_many(*({"id": f"b-{hour}", "body": 1, "delay": f"{hour}h"} for hour in (2, 4)))
    for one, message_id in ((other, "z"), (topic, "y"), (topic, "x")):
        await one.send(id=message_id, deliver_at=at)
    every = [("", "a-1"), (".x", "b-2"), ("", "a-3"), (".x", "b-4"), ("", "a-5"), ("", "x"), ("", "y"), (".x", "z")]

    for limit in (1, 2, 100):
        assert await found(topic, limit=limit) == every
        assert await found(topic, limit=limit, order="desc") == every[::-1]
    assert await found(topic, "", state="waiting,ready") == [one for one in every if not one[0]]
    assert await found(topic, ".*", id_prefix="b-") == every[1:4:2]
    assert (
        await found(topic, due_after="2026-12-31T23:59:59.999Z", due_before="2027-01-01T00:00:00.001+00:00")
        == (every[5:])
    )
    assert await found(topic, state="dead") == []


async def test_search_by_labels_follows_a_message_through_its_life(topic: Topic, amqp: Amqp, store: Store) -> None:
    both, one = {"customer": "42 é", "region": "a+b"}, {"customer": "42 é"}
    sent = await topic.send(id="m-1", delay="1h", labels=both)
    made = await topic.send(delay="2h", labels=one)
    (result,) = await topic.send_many({"id": "m-2", "body": 1, "labels": both, "max_retry": 0})
    await topic.send(id="m-3", delay="1h")
    assert (sent["labels"], made["labels"], result["message"]["labels"]) == (both, one, both)
    assert (await topic.look("m-1"))["labels"] == both
    assert (await topic.look("m-3"))["labels"] == {}
    assert (await topic.send(id="m-1", labels={}, expect=200))["labels"] == both

    assert await found(topic, label="customer:42 é") == [("", "m-2"), ("", "m-1"), ("", made["id"])]
    assert await found(topic, label=["customer:42 é", "region:a+b"], order="desc") == [("", "m-1"), ("", "m-2")]
    assert await found(topic, label="customer:42") == []
    assert await found(topic, label=["region:a+b", "customer:43"]) == []

    await topic.move("m-1", delay="3h")
    await topic.delete(made["id"])
    await topic.until_state("m-2", "ready")
    assert await found(topic, label="customer:42 é", state="waiting") == [("", "m-1")]
    assert await found(topic, label="customer:42 é", state="deleted") == [("", made["id"])]
    assert (await topic.pull_one())["labels"] == both
    await topic.nack({"id": "m-2"}, reason="card refused by bank")
    assert await found(topic, label="customer:42 é", state=["dead", "waiting"], id_prefix="m-2") == [("", "m-2")]

    await topic.send(id="m-2", delay="9h")  # the dead letter goes on under another id, with its labels
    (letter,) = await search(topic, label="region:a+b", state="dead")
    assert letter["id"].startswith("m-2~dead")
    await topic.call("POST", f"/dead/{letter['id']}/replay")
    assert await found(topic, label="region:a+b", state="dead") == []
    key = f"0.0.0.0.0.0.0.{topic.name}"
    await amqp.publish("delay", key, b"1", message_id=made["id"], content_type="application/json")
    await topic.until_state(made["id"], "ready")  # a client's own message has taken the id
    assert await found(topic, label="customer:42 é", id_prefix=made["id"]) == []

    await topic.call("DELETE", "?force=true")
    assert await labels_left(topic, store) == []


async def test_labels_are_forgotten_with_their_records(topic: Topic, store: Store) -> None:
    keys = Keys("delay").indexes(topic.name, 0)
    for number in range(6):
        await topic.send(id=f"m-{number}", delay="1h", labels={"customer": "42", "run": str(number)})
    for number in range(5):
        await topic.delete(f"m-{number}")
    assert len(await labels_left(topic, store)) == 6 * 2 + 5
    # As if their retention time had passed.
    notes = [entry for entry in await labels_left(topic, store) if entry.startswith(b"!")]
    for note in notes:
        await store.command("ZREM", keys[-1], note)
        await store.command("ZADD", keys[-1], 0, b"!0000000000001" + note[14:])
    for number in range(5):
        await store.command("ZADD", keys[-2], 1, f"m-{number}")

    await topic.delete("m-5")  # an end removes those of four
    assert len(await labels_left(topic, store)) == 2 * (2 + 1)
    await topic.info()  # a count removes the rest
    assert len(await labels_left(topic, store)) == 2 + 1
    assert await found(topic, label="customer:42") == [("", "m-5")]


async def test_search_by_reason_is_about_ended_messages(topic: Topic) -> None:
    for message_id, reason in (("m-1", "card refused"), ("m-2", "bank away"), ("m-3", "card lost")):
        await topic.send(id=message_id, max_retry=0)
        await bury_next(topic, reason=reason)
    await topic.send(id="m-4", delay="1h")

    assert await found(topic, reason_pattern="card *") == [("", "m-1"), ("", "m-3")]
    assert await found(topic, reason_pattern="*a*away", order="desc") == [("", "m-2")]
    assert await found(topic, reason_pattern="card *", limit=1) == [("", "m-1"), ("", "m-3")]
    assert await found(topic, reason_pattern="card *", state="waiting") == []


async def test_topics_are_listed_in_pages(topic: Topic) -> None:
    names = [topic.name, *(one.name for one in map(topic.beside, ("b", "c/x", "c.y")))]
    for name in names[1:]:
        await Topic(topic.client, name).put_policy()
    for limit in (1, 3, 1_000):
        seen, query = [], {"prefix": topic.name, "limit": limit}
        while query.get("cursor", "") is not None:
            page = (await topic.client.get("/v1/topics", params=query)).json()
            assert len(page["topics"]) <= limit
            seen += [one["topic"] for one in page["topics"]]
            query["cursor"] = page["next_cursor"]
        assert seen == sorted(names)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"label": "customer"}, "must be key:value, as in customer:42"),
    ({"label": "Customer:42"}, "the key 'Customer' must be 1-40 characters from a-z 0-9 _ . -"),
    ({"label": "customer:" + "x" * 101}, "the value of customer must be a string of at most 100 characters"),
    ({"label": [f"k{number}:1" for number in range(5)]}, "has 5 labels; at most 4 are allowed"),
    ({"label": ["a:1", "a:2"]}, "asks for two values of 'a'"),
    ({"topic": "a b*"}, "or a pattern of these characters, in which * is any text"),
    ({"state": "asleep"}, "the states are waiting"),
    ({"order": "up"}, "must be 'asc' or 'desc'"),
    ({"cursor": "MQ"}, "is not a cursor: use next_cursor of the page before"),
    ({"prefix": "a"}, "is unknown: remove it or correct its name"),
    ({"id_prefix": "a/b"}, "must match"),
    ({"due_after": "tomorrow"}, "RFC 3339"),
]


@pytest.mark.parametrize(("params", "said"), BAD, ids=[next(iter(params)) for params, _ in BAD])
async def test_wrong_parameter_is_named_with_its_limit(
    client: httpx2.AsyncClient, params: dict[str, Any], said: str
) -> None:
    answer = await client.get("/v1/messages", params=params)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["field"] == next(iter(params))
    assert said in error["message"]


async def test_search_of_a_topic_that_nobody_made_is_404(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/v1/messages", params={"topic": "nobody-made-it"})).status_code == 404
    assert (await client.get("/v1/messages", params={"topic": "nobody-made*"})).json() == {
        "items": [],
        "next_cursor": None,
    }


@pytest.mark.parametrize("labels", [{"A": "1"}, {"a": 1}, {"a": "\n"}, dict.fromkeys("abcde", ""), ["a"]])
async def test_wrong_labels_of_a_send_are_refused(topic: Topic, labels: Any) -> None:
    refused = await topic.send(labels=labels, expect=422)
    assert [error["field"] for error in refused["errors"]] == ["labels"]
