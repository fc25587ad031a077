"""Tests leases: receipts fence late calls, an extension keeps the lease, a nack returns the message with a delay."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from bridge.service.protocol import receipts
from bridge.store.client import Store
from bridge.store.keys import Keys
from tests.integration.topic import Json, Topic, due_ms

NowMs = Callable[[], Awaitable[int]]


async def test_ack_after_lease_end_is_refused(topic: Topic) -> None:
    await topic.send(id="m-1")
    first = await topic.pull_one(lease="1s")
    second = await topic.pull_one(lease="30s")
    assert (second["id"], second["attempts"]) == ("m-1", 2)
    assert first["receipt"] != second["receipt"]
    refused = await topic.ack(first, expect=409)
    assert (refused["type"].rpartition(":")[2], refused["state"]) == ("lease-ended", "leased")
    await topic.nack(first, expect=409)
    await topic.extend(first, "1m", expect=409)
    assert await topic.ack_many(receipts=[first["receipt"], "no receipt", second["receipt"]]) == [
        "stale",
        "unknown",
        "acked",
    ]
    assert await topic.ack_many(receipts=[first["receipt"]]) == ["stale"]
    assert await topic.state("m-1") == "acked"


async def test_receipt_of_an_earlier_message_of_the_id_is_refused(topic: Topic, store: Store) -> None:
    """Redis has lost the record of the earlier message, so the later one has the same epochs."""
    await topic.send("first", id="m-1")
    first = await topic.pull_one(lease="12h")
    await store.command("DEL", *Keys("delay").record(topic.name, "m-1")[:2])
    await topic.send("second", id="m-1")
    second = await topic.pull_one(lease="12h")
    assert second["body"] == "second"
    for how in (topic.ack, topic.nack):
        assert (await how(first, expect=409))["state"] == "leased"
    await topic.extend(first, "1m", expect=409)
    assert await topic.ack_many(receipts=[first["receipt"], second["receipt"]]) == ["stale", "acked"]


async def test_receipt_of_an_older_bridge_counts_for_its_lease(topic: Topic) -> None:
    await topic.send(id="m-1")
    first = old_receipt(await topic.pull_one(lease="1s"))
    second = old_receipt(await topic.pull_one(lease="30s"))
    await topic.extend(first, "1m", expect=409)
    await topic.extend(second, "1m")
    assert await topic.ack_many(receipts=[first["receipt"], second["receipt"]]) == ["stale", "acked"]


def old_receipt(leased: Json) -> Json:
    """The message with the receipt that an older bridge would have made: without a nonce."""
    return leased | {"receipt": receipts.make(receipts.read(leased["receipt"])._replace(nonce=None))}


async def test_ack_by_id_ends_a_message_that_may_have_been_received(topic: Topic) -> None:
    await topic.send(id="leased")
    await topic.pull_one(lease="1s")
    await topic.pull_one(lease="30s")
    await topic.send(id="ready")
    assert await topic.ack_many(ids=["leased", "ready", "none"]) == ["acked", "acked", "unknown"]
    await topic.send(id="nacked")
    await topic.nack(await topic.pull_one(), delay=600)
    assert await topic.ack_many(ids=["nacked"]) == ["acked"]
    await topic.send(id="marker", delay=900)
    assert await topic.drain("marker") == []


async def test_ack_by_id_of_a_message_that_nobody_has_received_is_refused(topic: Topic) -> None:
    waiting = await topic.send(id="m-1", delay="3s")
    assert await topic.ack_many(ids=["m-1"]) == ["not_leased"]
    assert (await topic.ack(waiting, expect=409))["state"] == "waiting"
    assert (await topic.pull_one())["id"] == "m-1"
    assert await topic.ack_many(ids=["m-1"]) == ["acked"]


async def test_ack_is_idempotent(topic: Topic) -> None:
    await topic.send(id="m-1")
    leased = await topic.pull_one()
    assert await topic.ack(leased) == await topic.ack(leased)
    assert await topic.ack_many(ids=["m-1"]) == ["acked"]


async def test_extended_lease_does_not_end_early(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.send(id="m-1")
    leased = await topic.pull_one(lease="3s")
    extended = await topic.extend(leased, "5s")
    assert due_ms({"due_at": extended["lease_until"]}) > due_ms({"due_at": leased["lease_until"]})
    await topic.send(id="marker", delay="3.4s")
    assert await topic.drain("marker") == []
    again = await topic.pull_one()
    assert (again["id"], again["attempts"]) == ("m-1", 2)
    assert await store_now_ms() >= due_ms({"due_at": extended["lease_until"]})


async def test_extension_never_shortens_a_lease(topic: Topic) -> None:
    await topic.send(id="m-1")
    leased = await topic.pull_one(lease="1h")
    assert (await topic.extend(leased, "1s"))["lease_until"] == leased["lease_until"]


async def test_nacked_message_returns_after_the_delay_with_the_reason(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.send(id="m-1")
    nacked = await topic.nack(await topic.pull_one(), delay=600, reason="card refused")
    assert (nacked["state"], nacked["reason"], nacked["attempts"]) == ("waiting", "card refused", 1)
    # On a slow machine it may be due by the first pull.
    again = next(iter(await topic.pull(wait=0)), None) or await topic.pull_one()
    assert await store_now_ms() >= due_ms(nacked)
    assert (again["attempts"], again["reason"]) == (2, "card refused")


async def test_message_nacked_without_a_delay_is_due_at_once(topic: Topic, store_now_ms: NowMs) -> None:
    await topic.send(id="m-1")
    nacked = await topic.nack(await topic.pull_one())
    assert nacked["state"] == "waiting"
    assert due_ms(nacked) <= await store_now_ms()
    assert (await topic.pull_one())["attempts"] == 2


async def test_only_a_leased_message_can_be_nacked_or_extended(topic: Topic) -> None:
    waiting = await topic.send(id="m-1", delay="1h")
    assert (await topic.nack(waiting, expect=409))["state"] == "waiting"
    assert (await topic.extend(waiting, "1m", expect=409))["state"] == "waiting"
    await topic.nack({"id": "none"}, expect=404)
    await topic.extend({"id": "none"}, "1m", expect=404)
    await topic.ack({"id": "none"}, expect=404)


@pytest.mark.parametrize(
    ("backoff", "waits_ms"),
    [
        (["200ms", "500ms"], [200, 500, 500]),
        ({"first": 200, "factor": 2, "max": 500}, [200, 400, 500]),
    ],
)
async def test_back_off_of_the_topic_delays_a_nacked_message(
    topic: Topic, store_now_ms: NowMs, backoff: object, waits_ms: list[int]
) -> None:
    await topic.put_policy(backoff=backoff)
    await topic.send(id="m-1", max_retry=9)
    for wait_ms in waits_ms:
        leased = await topic.pull_one()
        before_ms = await store_now_ms()
        nacked = await topic.nack(leased)
        assert before_ms + wait_ms - 50 <= due_ms(nacked) <= await store_now_ms() + wait_ms
    last = await topic.pull_one()
    assert await store_now_ms() >= due_ms(nacked)
    assert last["attempts"] == len(waits_ms) + 1


async def test_topic_sets_the_default_lease(topic: Topic) -> None:
    await topic.put_policy(lease="1s")
    await topic.send(id="m-1")
    first = await topic.pull_one()
    second = await topic.pull_one(lease="1h")
    assert (first["attempts"], second["attempts"]) == (1, 2)


async def test_nacked_message_without_a_kept_body_returns_at_lease_end(topic: Topic) -> None:
    large = "x" * (64 * 1024 + 1)
    await topic.send(large, id="m-1", content_type="text/plain")
    leased = await topic.pull_one(lease="3s")
    nacked = await topic.nack(leased, reason="busy")
    assert nacked["state"] == "waiting"
    assert due_ms(nacked) >= due_ms({"due_at": leased["lease_until"]})
    again = await topic.pull_one()
    assert (again["body"], again["attempts"]) == (large, 2)


async def test_last_nack_without_a_kept_body_leaves_the_lease_until_it_is_a_dead_letter(
    topic: Topic, store_now_ms: NowMs
) -> None:
    await topic.put_policy(keep_body_max=0)
    await topic.send(id="last", max_retry=0)
    message = await topic.pull_one(lease="1s")
    await topic.extend(message, "1h")
    nacked = await topic.nack(message, reason="refused", delay="5m")
    # It does not wait to be delivered: its lease ends as it would have without the longer one.
    assert (nacked["state"], nacked["attempts"], nacked["reason"]) == ("leased", 1, "refused")
    ends_ms = due_ms({"due_at": nacked["lease_until"]})
    assert ends_ms < await store_now_ms() + 2_000
    assert await topic.state("last") == "leased"
    assert await topic.pull(wait=0) == []
    dead = await topic.until_state("last", "dead")
    assert due_ms({"due_at": dead["ended_at"]}) >= ends_ms
    await topic.call("POST", "/dead/last/replay")
    assert (await topic.pull_one())["id"] == "last"
