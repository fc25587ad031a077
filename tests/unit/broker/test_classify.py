"""Tests that a delivery at the checkpoint is classified by its key and headers."""

import re
from dataclasses import dataclass
from typing import Any

import pytest

from bridge.broker.copies import bundles
from bridge.broker.copies.classify import Arrival, Bundle, Due, Returned, Unusable, classify, due_of
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.broker.copies.properties import Properties
from bridge.model.message import Copy, CopyKind
from topology.names import Names
from topology.wheel import route

NOW_MS = 1_769_850_000_000
NAMES = Names()
KEY = "0.0.0.0.30.5.2.orders"


@dataclass
class Delivered:
    routing_key: str
    properties: Properties
    body: bytes
    delivery_tag: int = 7
    exchange: str = "delay"
    redelivered: bool = False


def expired(*queues: str) -> list[dict[str, Any]]:
    return [{"queue": queue, "reason": "expired", "count": 1} for queue in queues]


def arrival(key: str, body: bytes = b"", **headers: Any) -> Arrival:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = Delivered(key, Properties(message_id="o-1", headers=named), body)
    return classify(NAMES, message, now_ms=NOW_MS)


def test_a_copy_that_went_through_its_slots_is_due() -> None:
    died = expired("delay.000d-00h-00m-00.2s", "delay.000d-00h-00m-05s", "delay.000d-00h-30m")
    found = arrival(KEY, x_death=died, x_delay_copy="2.a", x_delay_due=NOW_MS + 40)

    assert isinstance(found, Due)
    assert (found.stranded_ms, found.copy.topic, found.copy.epoch, found.copy.due_ms) == (0, "orders", 2, NOW_MS + 40)


def test_a_copy_that_missed_a_slot_has_the_rest_of_its_delay_left() -> None:
    found = arrival(KEY, x_death=expired("delay.000d-00h-30m"), x_delay_copy="2.a", x_delay_due=NOW_MS + 5_240)

    assert isinstance(found, Due)
    assert (found.stranded_ms, found.copy.due_ms) == (5_200, NOW_MS + 5_240)


@pytest.mark.parametrize(
    ("died", "left_ms"),
    [
        ([], 1_805_200),
        (expired("delay.000d-00h-00m-05s", "delay.000d-00h-30m"), 200),
        (expired("delay.000d-00h-00m-00.2s", "delay.000d-00h-00m-05s", "delay.000d-00h-30m"), 0),
    ],
)
def test_a_clients_own_message_is_due_when_its_key_says(died: list[dict[str, Any]], left_ms: int) -> None:
    found = arrival(KEY, x_death=died, x_delay_due=5)

    assert isinstance(found, Due)
    assert (found.copy.epoch, found.copy.due_ms, found.stranded_ms) == (0, NOW_MS + left_ms, left_ms)


def test_a_kind_in_the_key_is_no_part_of_the_topic() -> None:
    found = arrival("0.0.0.0.0.0.0.!lease.ns/orders.eu", x_delay_copy="2.a")

    assert isinstance(found, Due)
    assert found.copy.topic == "ns/orders.eu"


@pytest.mark.parametrize(("reason", "by_ttl"), [("rejected", False), ("delivery_limit", False), ("expired", True)])
def test_a_copy_dead_lettered_by_its_ready_queue_is_returned(reason: str, by_ttl: bool) -> None:
    died = [{"queue": "ready.ns/orders", "reason": reason, "count": 1}, *expired("delay.000d-00h-30m")]
    found = arrival("orders", x_death=died, x_delay_copy="2.a", x_delay_attempt=2)

    assert isinstance(found, Returned)
    assert (found.copy.topic, found.copy.attempt, found.reason, found.by_ttl) == ("ns/orders", 2, reason, by_ttl)


@pytest.mark.parametrize("key", ["", "orders", "0.0.0.0.30.5.orders", "0.0.0.0.60.5.2.orders", "0.0.0.0.30.5.2.a b"])
def test_a_message_without_a_key_of_the_wheel_is_unusable(key: str) -> None:
    found = arrival(key)

    assert isinstance(found, Unusable)
    assert repr(key) in found.reason


@pytest.mark.parametrize(
    "died",
    [
        "yes",
        5,
        [5],
        [{}],
        [{"queue": 5, "reason": None}],
        [{"queue": "delay.000d-00h-30m", "reason": "expired", "routing-keys": 5}],
        [{"queue": "delay.000d-00h-30m", "reason": "expired", "count": "x", "exchange": 7, "original-expiration": [1]}],
        {"queue": "delay.000d-00h-30m", "reason": "expired"},
    ],
)
def test_copy_with_forged_deaths_is_due(died: object) -> None:
    assert isinstance(arrival(KEY, x_death=died), Due)


def test_a_bundle_waits_packed_until_its_earliest_copy_is_due() -> None:
    found = arrival("0.0.0.0.0.5.0.!plain-bundle.ns/orders", x_delay_bundle=2, x_delay_due=NOW_MS + 40)

    assert isinstance(found, Bundle)
    assert (found.topic, found.kind, found.due_ms, found.stranded_ms) == ("ns/orders", CopyKind.PLAIN, NOW_MS + 40, 0)


def test_a_bundle_that_missed_a_slot_has_the_rest_of_its_delay_left() -> None:
    key = "0.0.0.0.30.5.2.!lease-bundle.orders"
    found = arrival(key, x_death=expired("delay.000d-00h-30m"), x_delay_bundle=2, x_delay_due=NOW_MS + 5_240)

    assert isinstance(found, Bundle)
    assert found.stranded_ms == 5_200


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("0.0.0.0.0.0.1.!checked.orders", CopyKind.CHECKED),
        ("0.0.0.0.0.0.1.orders", CopyKind.PLAIN),  # also a checked topic's copy of a former bridge
        ("0.0.0.0.0.0.1.!newer.orders", CopyKind.PLAIN),
    ],
)
def test_copy_has_the_kind_of_its_key(key: str, kind: CopyKind) -> None:
    found = arrival(key)
    assert isinstance(found, Due)
    assert (found.topic, found.kind) == ("orders", kind)


def test_the_copies_of_a_bundle_have_its_tag_and_the_topic_and_kind_of_its_key() -> None:
    body = b'copies\n[2,"o-1",1,2,1,3,%d,0,0]\n{}\n' % NOW_MS
    bundle = arrival("0.0.0.0.0.5.0.!lease-bundle.mails", body, x_delay_bundle=1, x_delay_due=NOW_MS)
    assert isinstance(bundle, Bundle)
    opened = bundle.open()
    assert isinstance(opened, OpenBundle)
    (entry,) = opened.due(NOW_MS)
    due = due_of(opened, entry, now_ms=NOW_MS)

    assert isinstance(due, Due)
    assert (due.copy.topic, due.copy.id, due.kind) == ("mails", "o-1", CopyKind.LEASE)
    assert (due.tag, due.original) == (7, due.copy)


def test_a_bundle_that_can_not_be_unpacked_is_put_aside_as_it_came() -> None:
    bundle = arrival("0.0.0.0.0.0.1.!plain-bundle.orders", b"junk", x_delay_bundle=2, x_delay_due=NOW_MS)
    assert isinstance(bundle, Bundle)

    unusable = bundle.open()
    assert isinstance(unusable, Unusable)
    assert (unusable.tag, unusable.original) == (7, bundle.original)
    assert unusable.reason.startswith("the message can't be read: ValueError")


def test_a_copy_of_a_bundle_that_can_not_be_read_is_put_aside_alone() -> None:
    body = b'copies\n[2,"a/b",1,2,1,3,%d,0,0]\n{}\n' % NOW_MS
    bundle = arrival("0.0.0.0.0.5.0.!lease-bundle.mails", body, x_delay_bundle=1, x_delay_due=NOW_MS)
    assert isinstance(bundle, Bundle)
    opened = bundle.open()
    assert isinstance(opened, OpenBundle)
    (entry,) = opened.due(NOW_MS)

    unusable = due_of(opened, entry, now_ms=NOW_MS)
    assert isinstance(unusable, Unusable)
    assert not isinstance(unusable.original, Copy)
    assert (unusable.tag, unusable.original.body) == (7, entry.data)
    assert unusable.original.properties.headers == {"x-delay-topic": "mails"}
    assert unusable.reason.startswith("the message can't be read: ValueError: a copy in the bundle has the id 'a/b'")


def test_an_arrival_counts_as_many_copies_as_it_holds() -> None:
    bundle = arrival("0.0.0.0.0.0.1.!plain-bundle.orders", x_delay_bundle=3, x_delay_due=NOW_MS)
    copy, unusable = arrival("0.0.0.0.0.0.1.mails"), arrival("no key")

    assert [(found.topic, found.count) for found in (bundle, copy, unusable)] == [("orders", 3), ("mails", 1), ("", 1)]


def test_a_message_with_a_plain_key_is_no_bundle() -> None:
    found = arrival("0.0.0.0.0.0.0.orders", x_delay_bundle=5)

    assert isinstance(found, Due)
    assert found.copy.epoch == 0


def test_a_message_out_of_a_ready_queue_is_never_a_bundle() -> None:
    died = [{"queue": "ready.orders", "reason": "rejected", "count": 1}]

    assert isinstance(arrival("0.0.0.0.0.0.0.!plain-bundle.orders", x_death=died, x_delay_bundle=5), Returned)


def test_a_bridge_without_bundles_finds_no_valid_key_in_a_bundle() -> None:
    for key in (route(Names(), 5_000, "orders", bundles.kind_of_bundle(kind)).routing_key for kind in CopyKind):
        *_, kind, topic = key.rsplit(".", 2)
        assert topic == "orders"
        # The kinds before there were bundles. A bridge of that time puts a message with another kind aside.
        assert not re.fullmatch("![a-z]{1,20}", kind)


@pytest.mark.parametrize("count", [None, 0, "5", 257])
def test_a_bundle_without_a_valid_count_is_unusable(count: object) -> None:
    assert isinstance(arrival("0.0.0.0.0.0.0.!lease-bundle.orders", x_delay_bundle=count, x_delay_due=NOW_MS), Unusable)


@pytest.mark.parametrize("due", [None, -1, "5", 1.5])
def test_a_bundle_without_a_valid_due_moment_is_unusable(due: object) -> None:
    assert isinstance(arrival("0.0.0.0.0.0.0.!plain-bundle.orders", x_delay_bundle=5, x_delay_due=due), Unusable)
