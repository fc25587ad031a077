"""What a delivery at the checkpoint turns out to be, and when it is asked about."""

from functools import partial
from typing import Any

from pamqp import commands as spec

from bridge.broker.client.delivery import Delivery
from bridge.broker.copies.classify import read
from bridge.loops.checkpoint.batches import Item
from bridge.loops.checkpoint.incoming import (
    Incoming,
    PackedBundle,
    Refused,
    asked_ms,
    incoming,
    parted,
    turn_of,
)
from topology.names import Names

NOW_MS = 1_769_850_000_000
READ = partial(read, Names(), max_retry=3)


def came(key: str, body: bytes = b"{}", **headers: Any) -> Incoming:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    message = Delivery(
        channel=None,  # type: ignore[arg-type]
        delivery_tag=7,
        routing_key=key,
        properties=spec.Basic.Properties(message_id="o-1", headers=named),
        body=body,
    )
    return incoming(READ, message, NOW_MS)


def bundle(*due_ms: int) -> Incoming:
    lines = b"".join(b'[2,"o-%d",1,2,1,3,%d,0,0]\n{}\n' % (at, one) for at, one in enumerate(due_ms))
    headers = {"x_delay_bundle": len(due_ms), "x_delay_due": min(due_ms)}
    return came("0.0.0.0.0.0.1.!plain-bundle.orders", b"copies\n" + lines, **headers)


def test_what_is_due_soon_is_asked_about_then_and_what_was_moved_by_others_at_once() -> None:
    soon = came("0.0.0.0.0.0.1.orders", x_delay_copy="1.a", x_delay_due=NOW_MS + 200)
    later = came("0.0.0.0.0.0.1.orders", x_delay_copy="1.a", x_delay_due=NOW_MS + 201)

    assert (asked_ms(soon, NOW_MS), asked_ms(later, NOW_MS)) == (NOW_MS + 200, NOW_MS)


def test_a_bundle_is_parted_when_the_earliest_of_its_copies_is_due() -> None:
    one = bundle(NOW_MS + 90, NOW_MS + 40)
    assert isinstance(one, PackedBundle)
    assert asked_ms(one, NOW_MS) == NOW_MS + 40

    found = parted(one, NOW_MS + 40)
    assert isinstance(found, list)
    assert [(item.tag, item.copy.id, item.message, asked_ms(item, NOW_MS + 40)) for item in found] == [
        (7, "o-0", found[0].copy, NOW_MS + 90),
        (7, "o-1", found[1].copy, NOW_MS + 40),
    ]


def test_a_bundle_that_can_not_be_parted_is_put_aside_as_it_came() -> None:
    one = came("0.0.0.0.0.0.1.!plain-bundle.orders", b"junk", x_delay_bundle=2, x_delay_due=NOW_MS)
    assert isinstance(one, PackedBundle)

    refused = parted(one, NOW_MS)
    assert isinstance(refused, Refused)
    assert (refused.tag, refused.message) == (7, one.message)
    assert refused.reason.startswith("it can't be read")


def test_a_bundle_takes_its_topics_turn_with_as_many_copies_as_it_holds() -> None:
    assert turn_of(bundle(NOW_MS, NOW_MS, NOW_MS)) == ("orders", 3)
    assert turn_of(came("0.0.0.0.0.0.1.mails")) == ("mails", 1)
    assert turn_of(came("no key")) == ("", 1)


def test_what_can_not_be_read_is_put_aside_at_once() -> None:
    for one in (came("no key"), came("0.0.0.0.0.0.1.!plain-bundle.orders", x_delay_bundle=2)):
        assert isinstance(one, Refused)
        assert asked_ms(one, NOW_MS) == NOW_MS


def test_what_is_back_from_its_ready_queue_is_asked_about_at_once() -> None:
    died = [{"queue": "ready.orders", "reason": "rejected", "count": 1}]
    back = came("orders", x_death=died, x_delay_copy="1.a", x_delay_due=NOW_MS + 100)

    assert isinstance(back, Item)
    assert asked_ms(back, NOW_MS) == NOW_MS
