"""Where a message of an old prefix goes under the new one."""

from typing import Any

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


def test_what_waits_is_published_for_what_its_key_has_left() -> None:
    assert (moved("delay.30m").exchange, moved("delay.30m").routing_key) == ("delay2.minutes", KEY)
    later = moved("delay.5s", headers=died("delay.30m"))
    assert (later.exchange, later.routing_key, later.headers) == (
        "delay2.seconds",
        "0.0.0.0.0.5.2.orders",
        {"own": 1},
    )
    assert later.slots == (("seconds", 5), ("tenths", 2))


def test_a_header_that_says_when_it_is_due_goes_before_the_key() -> None:
    assert moved("delay.30m", headers={"x-delay-due": NOW_MS + 1_001}).routing_key == "0.0.0.0.0.1.1.orders"
    assert moved("delay.30m", headers={"x-delay-due": NOW_MS - 1}).exchange == "delay2.due"
    assert moved("delay.30m", headers={"x-delay-due": NOW_MS + MAX_DELAY_MS * 2}).routing_key == "9.9.9.0.0.0.0.orders"
    assert moved("delay.30m", headers={"x-delay-due": "soon"}).routing_key == KEY


def test_what_is_due_goes_to_the_new_due_exchange_with_its_kind() -> None:
    due = moved("delay.checkpoint", "0.0.0.0.0.0.2.!lease.orders", died("delay.200ms"))

    assert (due.exchange, due.routing_key) == ("delay2.due", "0.0.0.0.0.0.0.!lease.orders")


def test_a_bundle_goes_on_as_one_until_the_earliest_of_its_copies_is_due() -> None:
    headers = {"x-delay-bundle": 3, "x-delay-due": NOW_MS + 1_001}
    bundle = moved("delay.30m", "0.0.0.0.30.5.2.!plain-bundle.orders", headers)

    assert (bundle.routing_key, bundle.headers) == ("0.0.0.0.0.1.1.!plain-bundle.orders", headers)


def test_what_came_back_from_a_ready_queue_keeps_the_headers_that_say_why() -> None:
    headers = died("ready.0.0.0.0.0.5.0.orders", "rejected")

    returned = moved("delay.checkpoint", "0.0.0.0.0.5.0.orders", headers)

    assert returned == Move(exchange="delay2.checkpoint", routing_key="0.0.0.0.0.5.0.orders", headers=headers)


def test_what_is_no_wheel_key_is_left_to_the_new_checkpoint() -> None:
    assert (moved("delay.checkpoint", "odd").exchange, moved("delay.checkpoint", "odd").routing_key) == (
        "delay2.checkpoint",
        "odd",
    )


def test_the_other_queues_have_one_target_each() -> None:
    acks, refused = moved("delay.acks", "orders"), moved("delay.refused", "delay.refused")
    assert (acks.exchange, acks.routing_key) == ("delay2.acks", "orders")
    assert (refused.exchange, refused.routing_key) == ("", "delay2.refused")
    ready, dead = moved("ready.orders", "orders", new=RENAMED), moved("dead.orders", "dead.orders", new=RENAMED)
    assert (ready.exchange, ready.routing_key, ready.keeps_expiration) == ("", "r.orders", True)
    assert (dead.exchange, dead.routing_key, dead.keeps_expiration) == ("", "d.orders", False)
