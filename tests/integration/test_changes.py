"""Tests changes of a waiting message: body, headers, limits, labels and moment in one call, under an ETag or not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tests.integration.amqp import Amqp
from tests.integration.topic import Json, Topic, due_ms

NowMs = Callable[[], Awaitable[int]]
LARGE = "x" * (64 * 1024 + 1)  # one byte more than is kept


async def tagged(
    topic: Topic, method: str = "GET", message_id: str = "m-1", *, seen: str | None = None, **given: Any
) -> tuple[int, str, Json]:
    """Calls one message. Returns the status, the ETag and the JSON."""
    path = f"/v1/topics/{topic.name}/messages/{message_id}"
    headers = {} if seen is None else {"If-Match": seen}
    answer = await topic.client.request(method, path, headers=headers, json=given or None)
    return answer.status_code, answer.headers.get("etag", ""), answer.json()


async def test_everything_is_changed_in_one_call_and_delivered_once(
    topic: Topic, amqp: Amqp, store_now_ms: NowMs
) -> None:
    await topic.send({"n": 1}, id="m-1", delay="1h", headers={"a": 1}, labels={"c": "1"}, max_retry=1)
    changed = await topic.move(
        "m-1", body={"n": 2}, headers={"b": 2}, delay="800ms", ttl="1m", max_retry=5, labels={"d": "2"}
    )
    assert (changed["body"], changed["headers"], changed["labels"]) == ({"n": 2}, {"b": 2}, {"d": "2"})
    assert (changed["max_retry"], due_ms({"due_at": changed["expires_at"]}) - due_ms(changed)) == (5, 60_000)
    assert await topic.look("m-1") == changed
    await topic.send(id="marker", delay="1.2s")
    async with amqp.consume(topic.ready_queue) as arrivals:
        message = await arrivals.get()
        assert await store_now_ms() >= due_ms(changed)
        assert (message.message_id, message.body, message.headers["b"]) == ("m-1", b'{"n":2}', 2)
        assert "a" not in message.headers
        marker = await arrivals.get()
        assert marker.message_id == "marker"
        await asyncio.gather(message.ack(), marker.ack())


async def test_a_change_of_the_body_alone_keeps_the_rest(topic: Topic) -> None:
    sent = await topic.send(
        "old", id="m-1", delay="2s", content_type="text/plain", headers={"a": "1"}, labels={"c": "1"}, ttl="1m"
    )
    changed = await topic.move("m-1", body="new")
    assert changed == {**sent, "body": "new"}
    pulled = await topic.pull_one()
    assert (pulled["body"], pulled["due_at"], pulled["headers"]) == ("new", sent["due_at"], {"a": "1"})
    await topic.ack(pulled)
    await topic.send(id="marker", delay="200ms")
    assert await topic.drain("marker") == []


async def test_a_message_without_a_kept_body_can_get_another_body_but_not_only_headers(topic: Topic) -> None:
    await topic.send(LARGE, id="m-1", delay="1h", headers={"a": 1})
    assert (await topic.move("m-1", headers={"a": 2}, expect=409))["type"].endswith(":body-not-kept")
    assert (await topic.move("m-1", ttl="1m"))["expires_at"] is not None
    changed = await topic.move("m-1", body="small", delay=0)
    assert (changed["body"], changed["headers"]) == ("small", {"a": 1})
    assert (await topic.pull_one())["body"] == "small"


async def test_only_a_waiting_message_is_changed(topic: Topic) -> None:
    await topic.move("m-1", body=1, expect=404)
    await topic.send(0, id="m-1")
    assert (await topic.move("m-1", body=1, expect=409))["state"] == "ready"


async def test_retries_below_the_deliveries_so_far_are_refused(topic: Topic) -> None:
    await topic.send(id="m-1")
    await topic.nack(await topic.pull_one(), delay="1h")
    refused = await topic.move("m-1", max_retry=0, expect=422)
    assert (refused["errors"][0]["field"], refused["errors"][0]["limit"]) == ("max_retry", 1)
    assert (await topic.move("m-1", max_retry=1))["max_retry"] == 1


async def test_labels_of_a_change_are_found_and_the_former_are_not(topic: Topic) -> None:
    await topic.send(id="m-1", delay="1h", labels={"customer": "41"})
    await topic.move("m-1", labels={"customer": "42"})
    for value, found in (("41", []), ("42", ["m-1"])):
        page = (
            await topic.client.get("/v1/messages", params={"topic": topic.name, "label": f"customer:{value}"})
        ).json()
        assert [one["id"] for one in page["items"]] == found
    assert (await topic.move("m-1", labels={}))["labels"] == {}


async def test_the_timeline_tells_a_change(topic: Topic) -> None:
    await topic.send(id="m-1", delay="1h")
    await topic.move("m-1", body=2)
    await topic.move("m-1", max_retry=9)
    await topic.move("m-1", delay="2h")
    items = (await topic.call("GET", "/messages/m-1/timeline"))["items"]
    assert [item["what"] for item in items] == ["sent", "changed", "changed", "moved"]
    assert [item["slot"] is not None for item in items] == [True, True, False, False]


async def test_the_etag_changes_with_each_change_and_a_stale_one_changes_nothing(topic: Topic) -> None:
    await topic.send(1, id="m-1", delay="1h")
    _, first, before = await tagged(topic)
    assert (await tagged(topic))[1] == first
    seen = [first]
    for given in (
        {"body": 2},
        {"headers": {"a": 1}},
        {"ttl": "1m"},
        {"labels": {"a": "1"}},
        {"max_retry": 9},
        {"delay": "2h"},
    ):
        status, tag, before = await tagged(topic, "PATCH", seen=seen[-1], **given)
        assert (status, tag == (await tagged(topic))[1], tag in seen) == (200, True, False)
        seen.append(tag)
    for stale in seen[:-1]:
        assert (await tagged(topic, "PATCH", seen=stale, body=3, delay=0))[0] == 412
        assert (await tagged(topic, "DELETE", seen=stale))[0] == 412
    assert await topic.look("m-1") == before
    assert (await tagged(topic, "PATCH", seen="*", body=3))[0] == 200
    assert (await tagged(topic, "PATCH", "unknown", seen="*", body=3))[0] == 404


async def test_the_etag_changes_as_the_message_is_delivered(topic: Topic) -> None:
    await topic.send(1, id="m-1", delay="100ms")
    tags = [(await tagged(topic))[1]]
    leased = await topic.pull_one(lease="1m")
    tags.append((await tagged(topic))[1])
    await topic.extend(leased, "1h")
    tags.append((await tagged(topic))[1])
    await topic.ack(leased)
    tags.append((await tagged(topic))[1])
    assert len(set(tags)) == len(tags)


async def test_of_racing_changes_with_one_etag_exactly_one_is_done(topic: Topic) -> None:
    await topic.send(0, id="m-1", delay="1h")
    for turn in range(5):
        _, seen, _ = await tagged(topic)
        racing = (
            tagged(topic, "PATCH", seen=seen, **({"body": [turn, at]} if at % 2 else {"max_retry": at, "delay": "2h"}))
            for at in range(8)
        )
        answers = await asyncio.gather(*racing)
        (done,) = [answer for answer in answers if answer[0] == 200]
        assert sorted(status for status, *_ in answers) == [200] + [412] * 7
        assert await tagged(topic) == done
    assert (await topic.info())["counts"]["waiting"] == 1


async def test_a_delete_with_the_etag_races_a_change_and_one_of_them_is_done(topic: Topic) -> None:
    for turn in range(4):
        name = f"m-{turn}"
        await topic.send(0, id=name, delay="1h")
        _, seen, _ = await tagged(topic, message_id=name)
        (deleted, _, _), (changed, _, _) = await asyncio.gather(
            tagged(topic, "DELETE", name, seen=seen), tagged(topic, "PATCH", name, seen=seen, body=1)
        )
        assert {deleted, changed} in ({200, 412}, {200, 409})
        assert await topic.state(name) == ("deleted" if deleted == 200 else "waiting")


async def test_a_malformed_if_match_is_refused(topic: Topic) -> None:
    await topic.send(0, id="m-1", delay="1h")
    status, _, problem = await tagged(topic, "PATCH", seen="unquoted", body=1)
    assert (status, problem["errors"][0]["field"]) == (422, "If-Match")
