"""Tests where a message of an old prefix goes under the new one."""

from typing import Any

import pytest

from topology.moves import Move, move
from topology.names import Names
from topology.wheel import MAX_DELAY_MS

OLD, NEW = Names(), Names(prefix="delay2")
RENAMED = Names(prefix="delay2", ready="r.", dead="d.")
KEY = "0.0.0.0.30.5.2.orders"
NOW_MS = 1_000_000_000_000


def moved(queue: str, key: str = KEY, headers: dict[str, Any] | None = None, new: Names = NEW) -> Move:
    return move(OLD, new, queue=queue, key=key, headers=headers, now_ms=NOW_MS)


def died(queue: str, reason: str = "expired") -> dict[str, Any]:
    return {"x-death": [{"queue": queue, "reason": reason, "count": 1}], "x-first-death-queue": queue, "own": 1}


def test_waiting_message_moves_with_the_remaining_delay_of_its_key() -> None:
    assert (moved("delay.000d-00h-30m").exchange, moved("delay.000d-00h-30m").routing_key) == ("delay2.minutes", KEY)
    later = moved("delay.000d-00h-00m-05s", headers=died("delay.000d-00h-30m"))
    assert (later.exchange, later.routing_key, later.headers) == (
        "delay2.seconds",
        "0.0.0.0.0.5.2.orders",
        {"own": 1},
    )
    assert later.slots == (("seconds", 5), ("tenths", 2))


@pytest.mark.parametrize("lane", ["", "lane2."])
def test_message_in_a_slot_of_an_earlier_version_has_the_same_remaining_delay(lane: str) -> None:
    old = Names(lanes=3)
    later = move(old, NEW, queue=f"delay.{lane}5s", key=KEY, headers=died(f"delay.{lane}30m"), now_ms=NOW_MS)

    assert (later.exchange, later.routing_key) == ("delay2.seconds", "0.0.0.0.0.5.2.orders")


def test_due_header_takes_precedence_over_the_key() -> None:
    assert moved("delay.000d-00h-30m", headers={"x-delay-due": NOW_MS + 1_001}).routing_key == "0.0.0.0.0.1.1.orders"
    assert moved("delay.000d-00h-30m", headers={"x-delay-due": NOW_MS - 1}).exchange == "delay2.due"
    assert (
        moved("delay.000d-00h-30m", headers={"x-delay-due": NOW_MS + MAX_DELAY_MS * 2}).routing_key
        == "9.9.9.0.0.0.0.orders"
    )
    assert moved("delay.000d-00h-30m", headers={"x-delay-due": "soon"}).routing_key == KEY


def test_due_message_goes_to_the_new_due_exchange_with_its_kind() -> None:
    due = moved("delay.checkpoint", "0.0.0.0.0.0.2.!lease.orders", died("delay.000d-00h-00m-00.2s"))

    assert (due.exchange, due.routing_key) == ("delay2.due", "0.0.0.0.0.0.0.!lease.orders")


def test_bundle_moves_whole_until_its_earliest_copy_is_due() -> None:
    headers = {"x-delay-bundle": 3, "x-delay-due": NOW_MS + 1_001}
    bundle = moved("delay.000d-00h-30m", "0.0.0.0.30.5.2.!plain-bundle.orders", headers)

    assert (bundle.routing_key, bundle.headers) == ("0.0.0.0.0.1.1.!plain-bundle.orders", headers)


def test_message_returned_from_a_ready_queue_keeps_its_death_headers() -> None:
    headers = died("ready.0.0.0.0.0.5.0.orders", "rejected")

    returned = moved("delay.checkpoint", "0.0.0.0.0.5.0.orders", headers)

    assert returned == Move(exchange="delay2.checkpoint", routing_key="0.0.0.0.0.5.0.orders", headers=headers)


def test_message_with_a_malformed_key_goes_to_the_new_checkpoint() -> None:
    assert (moved("delay.checkpoint", "odd").exchange, moved("delay.checkpoint", "odd").routing_key) == (
        "delay2.checkpoint",
        "odd",
    )


def test_other_queues_have_one_target_each() -> None:
    acks, refused = moved("delay.acks", "orders"), moved("delay.refused", "delay.refused")
    assert (acks.exchange, acks.routing_key) == ("delay2.acks", "orders")
    assert (refused.exchange, refused.routing_key) == ("", "delay2.refused")
    ready, dead = moved("ready.orders", "orders", new=RENAMED), moved("dead.orders", "dead.orders", new=RENAMED)
    assert (ready.exchange, ready.routing_key, ready.keeps_expiration) == ("", "r.orders", True)
    assert (dead.exchange, dead.routing_key, dead.keeps_expiration) == ("", "d.orders", False)


@pytest.mark.parametrize(
    ("queue", "headers"),
    [
        ("delay.in", {"x-delay": 5_000}),
        ("delay.checkpoint", {"x-delay": 5_000, **died("delay.in"), "own": 1}),
    ],
)
def test_message_of_the_ingress_moves_to_the_new_one(queue: str, headers: dict[str, Any]) -> None:
    made = moved(queue, "orders", headers)

    assert (made.exchange, made.routing_key, made.keeps_expiration) == ("delay2.in", "orders", True)
    assert made.headers["x-delay"] == 5_000
    assert "x-death" not in made.headers


def test_message_of_another_exchanges_publisher_names_its_target_when_it_moves() -> None:
    made = move(
        OLD, NEW, queue="delay.in", key="eu.new", headers={"x-delay": 5}, now_ms=NOW_MS, exchange="delay.in.shop"
    )

    assert (made.exchange, made.routing_key) == ("delay2.in", "exchanges/shop")
    assert made.headers == {"x-delay": 5, "x-delay-exchange": "shop", "x-delay-routing-key": "eu.new"}


def test_unroutable_letter_keeps_its_headers() -> None:
    made = moved("delay.unroutable", "delay.unroutable", {"x-delay-exchange": "shop", "x-delay-reason": "no queue"})

    assert (made.exchange, made.routing_key) == ("", "delay2.unroutable")
    assert made.headers == {"x-delay-exchange": "shop", "x-delay-reason": "no queue"}
