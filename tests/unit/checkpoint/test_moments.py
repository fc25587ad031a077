"""Tests that the checkpoint asks Redis about a copy when it is due, or at once."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bridge.broker.client.delivery import Delivery
from bridge.broker.copies.classify import Arrival, Bundle, Due, Returned, Unusable, classify, due_of
from bridge.broker.copies.open_bundle import OpenBundle
from bridge.broker.copies.properties import Properties
from bridge.loops.checkpoint.moments import ask_at_ms, first_asked_ms
from topology.names import Names

NOW_MS = 1_769_850_000_000


def arrived(key: str, body: bytes = b"{}", **headers: Any) -> Arrival:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = Delivery(
        acknowledger=None,  # type: ignore[arg-type]
        delivery_tag=7,
        routing_key=key,
        properties=Properties(message_id="o-1", headers=named),
        body=body,
    )
    return classify(Names(), message, now_ms=NOW_MS)


@pytest.mark.parametrize(("due_in_ms", "asked_in_ms"), [(-5, -10), (0, -5), (205, 200), (206, 0)])
def test_a_copy_due_soon_is_held_and_one_due_later_is_asked_about_at_once(due_in_ms: int, asked_in_ms: int) -> None:
    copy = arrived("0.0.0.0.0.0.1.orders", x_delay_copy="1.a", x_delay_due=NOW_MS + due_in_ms)

    assert isinstance(copy, Due)
    assert ask_at_ms(copy, NOW_MS) == NOW_MS + asked_in_ms


@pytest.mark.parametrize(
    ("due_in_ms", "kind", "asked_in_ms"),
    [
        (-1_000, "", -1_005),
        (-1_001, "", 200),
        (-7_200_000, "", 200),
        (-7_200_000, "!hold.", -7_200_005),
        (150, "", 145),
    ],
)
def test_copy_that_seems_late_waits_for_the_shortness_of_the_wheel(due_in_ms: int, kind: str, asked_in_ms: int) -> None:
    copy = arrived(f"0.0.0.0.0.0.1.{kind}orders", x_delay_copy="1.a", x_delay_due=NOW_MS + due_in_ms)

    assert first_asked_ms(copy, NOW_MS, 7_200_000) == NOW_MS + asked_in_ms
    assert first_asked_ms(copy, NOW_MS, 0) == ask_at_ms(copy, NOW_MS)


@pytest.mark.parametrize(
    ("died_ms", "in_queue_ms"), [(NOW_MS - 10_000, 9_000), (NOW_MS, 0), (NOW_MS + 5_000, 0), (None, None)]
)
def test_bundle_tells_how_long_it_has_certainly_stood(died_ms: int | None, in_queue_ms: int | None) -> None:
    died: dict[str, Any] = {"queue": "delay.000d-00h-00m-01s", "reason": "expired", "count": 1}
    if died_ms is not None:
        died["time"] = datetime.fromtimestamp(died_ms / 1_000, UTC)
    bundle = arrived(
        "0.0.0.0.0.0.1.!plain-bundle.orders", x_death=[died], x_delay_bundle=2, x_delay_due=NOW_MS - 7_200_000
    )
    assert isinstance(bundle, Bundle)
    assert bundle.in_queue_ms(NOW_MS) == in_queue_ms


def test_a_lease_copy_is_held_until_its_lease_ends() -> None:
    copy = arrived("0.0.0.0.0.0.1.!lease.orders", x_delay_copy="1.a", x_delay_due=NOW_MS + 40)

    assert isinstance(copy, Due)
    assert ask_at_ms(copy, NOW_MS) == NOW_MS + 40


def test_a_bundle_is_unpacked_when_its_earliest_copy_is_due() -> None:
    due_ms = (NOW_MS + 90, NOW_MS + 40)
    lines = b"".join(b'[2,"o-%d",1,2,1,3,%d,0,0]\n{}\n' % (at, one) for at, one in enumerate(due_ms))
    bundle = arrived(
        "0.0.0.0.0.0.1.!plain-bundle.orders", b"copies\n" + lines, x_delay_bundle=2, x_delay_due=min(due_ms)
    )
    assert isinstance(bundle, Bundle)
    assert ask_at_ms(bundle, NOW_MS) == NOW_MS + 35

    opened = bundle.open()
    assert isinstance(opened, OpenBundle)
    copies = [due_of(opened, entry, now_ms=NOW_MS + 40) for entry in opened.due(NOW_MS + 40)]
    assert [(copy.tag, _id(copy), ask_at_ms(copy, NOW_MS + 40)) for copy in copies] == [
        (7, "o-0", NOW_MS + 85),
        (7, "o-1", NOW_MS + 35),
    ]


def _id(arrival: Arrival) -> str:
    assert isinstance(arrival, Due)
    return arrival.copy.id


def test_an_unusable_message_is_put_aside_at_once() -> None:
    for arrival in (arrived("no key"), arrived("0.0.0.0.0.0.1.!plain-bundle.orders", x_delay_bundle=2)):
        assert isinstance(arrival, Unusable)
        assert ask_at_ms(arrival, NOW_MS) == NOW_MS


def test_a_returned_copy_is_asked_about_at_once() -> None:
    died = [{"queue": "ready.orders", "reason": "rejected", "count": 1}]
    returned = arrived("orders", x_death=died, x_delay_copy="1.a", x_delay_due=NOW_MS + 100)

    assert isinstance(returned, Returned)
    assert ask_at_ms(returned, NOW_MS) == NOW_MS
