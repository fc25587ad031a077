"""Tests that a dead letter outlives a new message of its id: it is listed, looked up, replayed and dropped."""

from __future__ import annotations

import re

import pytest

from bridge.store.client import Store
from bridge.store.keys import Keys
from tests.integration.amqp import Amqp
from tests.integration.bulk import act
from tests.integration.dead_letters import bury_next, dead_ids, dead_letters, make_dead, until_dead
from tests.integration.topic import Json, Topic

LONG = "x" * 2_000
"""Redis keeps such a body in a key of its own."""


async def take_id(topic: Topic, amqp: Amqp, *, over_amqp: bool = False) -> str:
    """Makes m-1 a dead letter, and sends m-1 again. Returns the letter's new id."""
    await topic.send(id="m-1", body=LONG, max_retry=0)
    await bury_next(topic)
    if over_amqp:
        key = f"0.0.0.0.0.0.0.{topic.name}"
        await amqp.publish("delay", key, b'"new"', message_id="m-1", content_type="application/json")
        assert (await topic.until_state("m-1", "ready"))["attempts"] == 0
    else:
        await topic.send("new", id="m-1", delay="1h")
    (letter,) = await dead_letters(topic)
    assert re.fullmatch(r"m-1~dead[0-9]+", letter["id"])
    assert (letter["state"], letter["attempts"], letter["reason"]) == ("dead", 1, "refused")
    taken: str = letter["id"]
    return taken


async def pulled(topic: Topic) -> Json:
    message = await topic.pull_one()
    await topic.ack(message)
    return message


@pytest.mark.parametrize("over_amqp", [False, True], ids=["http", "amqp"])
async def test_dead_letter_whose_id_was_taken_is_replayed_beside_the_new_message(
    topic: Topic, amqp: Amqp, over_amqp: bool
) -> None:
    aside = await take_id(topic, amqp, over_amqp=over_amqp)
    assert (await topic.look(aside))["body"] == LONG
    if over_amqp:
        assert (await pulled(topic))["body"] == "new"
    await topic.call("POST", "/dead/m-1/replay", expect=404)
    replayed = await topic.call("POST", f"/dead/{aside}/replay")
    assert (replayed["id"], replayed["attempts"]) == (aside, 0)
    again = await pulled(topic)
    assert (again["id"], again["body"]) == (aside, LONG)
    assert await dead_ids(topic) == []
    assert await amqp.count(topic.dead_queue) == 0
    assert await topic.state("m-1") == ("acked" if over_amqp else "waiting")
    assert (await topic.look("m-1"))["body"] == "new"


@pytest.mark.parametrize("path", ["replay", "replay-one", "drop", "drop-one", "bulk"])
async def test_dead_letter_whose_new_ids_were_sent_too_is_found_under_the_last(
    topic: Topic, amqp: Amqp, path: str
) -> None:
    await topic.put_policy(keep_body_max=0)  # only the queue has its body
    await topic.send(id="m-1", body=LONG, max_retry=0)
    await topic.nack(await topic.pull_one(lease="1s"), reason="refused")
    await until_dead(topic, "m-1")
    await topic.send("new", id="m-1", delay="1h")
    aside = (await dead_letters(topic))[0]["id"]
    for _ in range(2):
        await topic.send("new too", id=aside, delay="1h")
        (letter,) = await dead_letters(topic)
        assert letter["id"].startswith(f"{aside}~dead")
        aside = letter["id"]
    match path:
        case "replay":
            assert await topic.call("POST", "/dead/replay") == {"replayed": 1}
        case "replay-one":
            await topic.call("POST", f"/dead/{aside}/replay")
        case "drop":
            assert await topic.call("DELETE", "/dead") == {"dropped": 1}
        case "drop-one":
            await topic.call("DELETE", f"/dead/{aside}")
        case _:
            assert (await act(topic, "replay"))["done"] == 1
    if not path.startswith("drop"):
        again = await pulled(topic)
        assert (again["id"], again["body"]) == (aside, LONG)
    assert await dead_ids(topic) == []
    assert await amqp.count(topic.dead_queue) == 0
    assert (await topic.info())["counts"]["waiting"] == 3


async def test_new_id_of_a_letter_with_the_longest_id_is_shown_and_pages(topic: Topic, amqp: Amqp) -> None:
    await make_dead(topic, "x" * 200)
    for _ in range(2):
        (letter,) = await dead_letters(topic)
        await topic.send(id=letter["id"], delay="1h")
    (letter,) = await dead_letters(topic)
    assert len(letter["id"]) > 220
    assert (await topic.look(letter["id"]))["state"] == "dead"
    await topic.send(id=letter["id"], expect=422)
    await topic.call("POST", f"/dead/{letter['id']}/replay")
    assert (await pulled(topic))["id"] == letter["id"]


async def test_letter_of_which_redis_lost_the_record_is_replayed_beside_a_message_of_its_id(
    topic: Topic, amqp: Amqp, store: Store
) -> None:
    await topic.send("old", id="m-1", max_retry=0)
    await bury_next(topic)
    await store.command("DEL", *Keys("delay").record(topic.name, "m-1")[:2])
    await topic.send("new", id="m-1", delay="1h")
    assert await topic.call("POST", "/dead/replay") == {"replayed": 1}
    again = await pulled(topic)
    assert (again["id"].partition("~dead")[0], again["body"]) == ("m-1", "old")
    assert (await topic.look("m-1"))["body"] == "new"
    assert await amqp.count(topic.dead_queue) == 0


async def test_dead_letters_whose_ids_were_taken_are_replayed_among_others(topic: Topic, amqp: Amqp) -> None:
    aside = await take_id(topic, amqp)
    await make_dead(topic, "m-2")
    assert await topic.call("POST", "/dead/replay") == {"replayed": 2}
    assert sorted(await topic.pull_ids(2)) == [aside, "m-2"]
    assert await amqp.count(topic.dead_queue) == 0


async def test_dead_letters_whose_ids_were_taken_are_dropped_one_or_many(topic: Topic, amqp: Amqp) -> None:
    first = await take_id(topic, amqp)
    await topic.move("m-1", delay=0)
    pulled = await topic.pull_one()
    await topic.nack(pulled, delay="1h")
    assert await topic.state("m-1") == "waiting"
    assert (await topic.call("DELETE", f"/dead/{first}"))["state"] == "deleted"
    assert await amqp.count(topic.dead_queue) == 0
    await topic.delete("m-1")
    second = await take_id(topic, amqp)
    assert second != first
    assert await topic.call("DELETE", "/dead") == {"dropped": 1}
    assert await dead_ids(topic) == []
    assert await topic.state(second) == "deleted"
    assert await topic.state("m-1") == "waiting"


async def test_drop_of_an_unknown_letter_spares_the_record_of_a_later_one(
    topic: Topic, amqp: Amqp, store: Store
) -> None:
    """Redis has lost the record of the first letter, so both have the same epoch."""
    await make_dead(topic, "m-1")
    await store.command("DEL", *Keys("delay").record(topic.name, "m-1")[:2])
    await make_dead(topic, "m-1")
    assert await topic.call("DELETE", "/dead?max=1") == {"dropped": 1}
    assert await dead_ids(topic) == ["m-1"]
    assert await topic.call("POST", "/dead/replay") == {"replayed": 1}
    assert (await pulled(topic))["id"] == "m-1"
    assert await amqp.count(topic.dead_queue) == 0
