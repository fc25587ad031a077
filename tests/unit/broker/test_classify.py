"""What a delivery at the checkpoint is, by its key and headers."""

import re
from dataclasses import replace
from typing import Any

import pytest
from pamqp import commands as spec

from bridge.broker.copies import bundles
from bridge.broker.copies.classify import Arrival, Back, Bundle, Due, Strange, read
from bridge.model.message import CopyKind
from topology.names import Names
from topology.wheel import route

NOW_MS = 1_769_850_000_000
NAMES = Names()
KEY = "0.0.0.0.30.5.2.orders"


def expired(*queues: str) -> list[dict[str, Any]]:
    return [{"queue": queue, "reason": "expired", "count": 1} for queue in queues]


def arrival(key: str, **headers: Any) -> Arrival:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    properties = spec.Basic.Properties(message_id="o-1", headers=named)
    return read(NAMES, key, properties, b"", now_ms=NOW_MS, max_retry=3)


def test_a_copy_that_went_through_its_slots_is_due() -> None:
    died = expired("delay.200ms", "delay.5s", "delay.30m")
    found = arrival(KEY, x_death=died, x_delay_copy="2.a", x_delay_due=NOW_MS + 40)

    assert isinstance(found, Due)
    assert (found.stranded_ms, found.copy.topic, found.copy.epoch, found.copy.due_ms) == (0, "orders", 2, NOW_MS + 40)


def test_a_copy_whose_slot_was_missing_has_the_rest_of_its_key_left() -> None:
    found = arrival(KEY, x_death=expired("delay.30m"), x_delay_copy="2.a", x_delay_due=NOW_MS + 5_240)

    assert isinstance(found, Due)
    assert (found.stranded_ms, found.copy.due_ms) == (5_200, NOW_MS + 5_240)


@pytest.mark.parametrize(
    ("died", "left_ms"),
    [([], 1_805_200), (expired("delay.5s", "delay.30m"), 200), (expired("delay.200ms", "delay.5s", "delay.30m"), 0)],
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
def test_a_copy_that_left_its_ready_queue_is_back(reason: str, by_ttl: bool) -> None:
    died = [{"queue": "ready.ns/orders", "reason": reason, "count": 1}, *expired("delay.30m")]
    found = arrival("orders", x_death=died, x_delay_copy="2.a", x_delay_attempt=2)

    assert isinstance(found, Back)
    assert (found.copy.topic, found.copy.attempt, found.reason, found.by_ttl) == ("ns/orders", 2, reason, by_ttl)


@pytest.mark.parametrize("key", ["", "orders", "0.0.0.0.30.5.orders", "0.0.0.0.60.5.2.orders", "0.0.0.0.30.5.2.a b"])
def test_what_has_no_key_of_the_wheel_is_strange(key: str) -> None:
    found = arrival(key)

    assert isinstance(found, Strange)
    assert repr(key) in found.reason


@pytest.mark.parametrize(
    "died",
    [
        "yes",
        5,
        [5],
        [{}],
        [{"queue": 5, "reason": None}],
        [{"queue": "delay.30m", "reason": "expired", "routing-keys": 5}],
        [{"queue": "delay.30m", "reason": "expired", "count": "x", "exchange": 7, "original-expiration": [1]}],
        {"queue": "delay.30m", "reason": "expired"},
    ],
)
def test_forged_deaths_break_nothing(died: object) -> None:
    assert isinstance(arrival(KEY, x_death=died), Due)


def test_a_bundle_waits_unparted_for_the_earliest_of_its_copies() -> None:
    found = arrival("0.0.0.0.0.5.0.!plain-bundle.ns/orders", x_delay_bundle=2, x_delay_due=NOW_MS + 40)

    assert isinstance(found, Bundle)
    assert (found.topic, found.kind, found.due_ms, found.stranded_ms) == ("ns/orders", CopyKind.PLAIN, NOW_MS + 40, 0)
    with pytest.raises(ValueError):
        found.parted(now_ms=NOW_MS)


def test_a_bundle_whose_slot_was_missing_has_the_rest_of_its_key_left() -> None:
    key = "0.0.0.0.30.5.2.!lease-bundle.orders"
    found = arrival(key, x_death=expired("delay.30m"), x_delay_bundle=2, x_delay_due=NOW_MS + 5_240)

    assert isinstance(found, Bundle)
    assert found.stranded_ms == 5_200


def test_what_a_bundle_holds_is_what_its_key_says() -> None:
    bundle = arrival("0.0.0.0.0.5.0.!lease-bundle.mails", x_delay_bundle=1, x_delay_due=NOW_MS)
    assert isinstance(bundle, Bundle)
    body = b'copies\n[2,"o-1",1,2,1,3,%d,0,0]\n{}\n' % NOW_MS
    (due,) = replace(bundle, body=body).parted(now_ms=NOW_MS)

    assert (due.copy.topic, due.copy.id, due.kind) == ("mails", "o-1", "lease")


def test_a_client_that_claims_a_bundle_under_a_plain_key_sends_a_message_like_others() -> None:
    found = arrival("0.0.0.0.0.0.0.orders", x_delay_bundle=5)

    assert isinstance(found, Due)
    assert found.copy.epoch == 0


def test_what_left_a_ready_queue_is_no_bundle_whatever_it_claims() -> None:
    died = [{"queue": "ready.orders", "reason": "rejected", "count": 1}]

    assert isinstance(arrival("0.0.0.0.0.0.0.!plain-bundle.orders", x_death=died, x_delay_bundle=5), Back)


def test_a_bridge_that_knows_no_bundles_finds_no_key_in_theirs() -> None:
    for key in (route(Names(), 5_000, "orders", bundles.kind_of_bundle(kind)).routing_key for kind in CopyKind):
        *_, kind, topic = key.rsplit(".", 2)
        assert topic == "orders"
        # What was a kind before there were bundles. What had none was put aside, and delivered to nobody.
        assert not re.fullmatch("![a-z]{1,20}", kind)


@pytest.mark.parametrize("count", [None, 0, "5", 257])
def test_a_bundle_that_does_not_say_of_how_many_copies_it_is_can_not_be_read(count: object) -> None:
    with pytest.raises(ValueError):
        arrival("0.0.0.0.0.0.0.!lease-bundle.orders", x_delay_bundle=count, x_delay_due=NOW_MS)


@pytest.mark.parametrize("due", [None, -1, "5", 1.5])
def test_a_bundle_that_does_not_say_when_it_is_due_can_not_be_read(due: object) -> None:
    with pytest.raises(ValueError):
        arrival("0.0.0.0.0.0.0.!plain-bundle.orders", x_delay_bundle=5, x_delay_due=due)
