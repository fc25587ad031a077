"""Tests which subscriptions are accepted, and what remains when one is removed."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from tests.callbacks.receiver import Received, Receiver, answer
from tests.callbacks.subscribing import SECRET, subscribe
from tests.integration.topic import Json, Topic


async def test_removing_a_subscription_lets_its_calls_finish_and_starts_no_more(
    topic: Topic, receiver: Receiver
) -> None:
    release = asyncio.Event()

    async def slowly(received: Received) -> bytes:
        await release.wait()
        return answer()

    receiver.reply = slowly
    await subscribe(topic, receiver, concurrency=1, timeout="60s")
    await topic.send(id="in-flight")
    await receiver.some(1)
    await topic.send(id="later")

    assert await topic.call("DELETE", "/subscription") == {"topic": topic.name, "removed": True}

    await topic.call("GET", "/subscription", expect=404)
    await topic.call("DELETE", "/subscription", expect=404)
    later = await topic.pull_one()
    assert (later["id"], later["attempts"]) == ("later", 1)
    release.set()
    await topic.until_state("in-flight", "acked")
    assert receiver.calls.empty()


async def test_removing_a_topic_removes_its_subscription(topic: Topic, receiver: Receiver) -> None:
    await subscribe(topic, receiver)
    await topic.call("DELETE")
    await topic.call("GET", "/subscription", expect=404)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://127.0.0.2/", "must be https"),
        ("https://127.0.0.2/", "leads to 127.0.0.2, which is not a public address (loopback;"),
        ("https://[::ffff:169.254.169.254]/", "(link-local;"),
        ("https://2130706434/", "(loopback;"),
        ("https://0x7f.2/", "(loopback;"),
        ("https://user:secret@127.0.0.1/", "must be https://host"),
        (5, "must be https://host"),
    ],
)
async def test_a_subscription_to_a_forbidden_url_is_refused(
    topic: Topic, receiver: Receiver, url: object, text: str
) -> None:
    (error,) = (await subscribe(topic, receiver, url=url, expect=422))["errors"]

    assert (error["field"], error["value"]) == ("url", url)
    assert text in error["message"]
    await topic.call("GET", "/subscription", expect=404)


async def test_a_subscription_to_a_host_with_a_loopback_address_is_refused(bridge_url: str) -> None:
    """The bridge's settings allow no private address."""
    wanted = {"url": "https://localhost:8443/", "secret": SECRET}
    async with httpx2.AsyncClient(base_url=bridge_url, timeout=60) as client:
        refused = await Topic(client, "push-refused").call("PUT", "/subscription", wanted, expect=422)
    (error,) = refused["errors"]
    assert "which is not a public address (loopback;" in error["message"]


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"secret": "whsec_c2hvcnQ="}, "secret"),
        ({"secret": [SECRET] * 6}, "secret"),
        ({"secret": []}, "secret"),
        ({"secret": None}, "secret"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 101}, "concurrency"),
        ({"timeout": "999ms"}, "timeout"),
        ({"timeout": "301s"}, "timeout"),
        ({"backoff": []}, "backoff"),
        ({"retries": 3}, "retries"),
    ],
)
async def test_an_error_names_the_invalid_field_and_contains_no_secret(
    topic: Topic, receiver: Receiver, fields: Json, field: str
) -> None:
    refused = await subscribe(topic, receiver, expect=422, **fields)

    assert [error["field"] for error in refused["errors"]] == [field]
    assert refused["errors"][0]["limit"] is not None
    assert "whsec_c2" not in str(refused)
    assert SECRET not in str(refused)
