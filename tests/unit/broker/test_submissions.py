"""Tests how messages whose delay is in a header are read."""

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from bridge.broker.copies.classify import Due, Unusable, classify, submitted
from bridge.broker.copies.properties import Properties
from bridge.broker.copies.submissions import Submission
from bridge.model.message import Target, digest_of_name
from topology.names import Names
from topology.wheel import MAX_DELAY_MS

NAMES = Names()
NOW_MS = 1_769_850_000_000
DAY_MS = 86_400_000


@dataclass(frozen=True)
class Message:
    """A delivery as the checkpoint and the ingress get it."""

    exchange: str = "delay.in"
    routing_key: str = "orders"
    properties: Properties = field(default_factory=Properties)
    body: bytes = b"{}"
    delivery_tag: int = 7
    redelivered: bool = False


def with_headers(headers: dict[str, Any], **other: Any) -> Message:
    return Message(properties=Properties(headers=headers, message_id="o-1"), **other)


def read(message: Message) -> Submission:
    found = submitted(NAMES, message, now_ms=NOW_MS)
    assert isinstance(found, Submission), found
    return found


def reason(message: Message) -> str:
    found = submitted(NAMES, message, now_ms=NOW_MS)
    assert isinstance(found, Unusable), found
    return found.reason


@pytest.mark.parametrize(
    ("value", "delay_ms", "delivered_with"),
    [
        (5_000, 5_000, -5_000),
        ("5000", 5_000, -5_000),
        (5_000.0, 5_000, -5_000),
        (4_999.5, 5_000, -5_000),
        (Decimal("4999.5"), 5_000, -5_000),
        (0, 0, 0),
        ("0", 0, "0"),
        (-5_000, 0, -5_000),
        ("-5000", 0, "-5000"),
        (60 * DAY_MS, 60 * DAY_MS, -60 * DAY_MS),
        (MAX_DELAY_MS, MAX_DELAY_MS, -MAX_DELAY_MS),
    ],
)
def test_delay_is_read_as_the_plugin_reads_it(value: Any, delay_ms: int, delivered_with: Any) -> None:
    found = read(with_headers({"x-delay": value, "tenant": "t-7"}))

    assert (found.draft.delay_ms, found.draft.deliver_at_ms) == (delay_ms, None)
    assert found.draft.envelope.headers == {"x-delay": delivered_with, "tenant": "t-7"}


def test_message_without_a_delay_is_due_now() -> None:
    assert (read(Message()).draft.delay_ms, read(Message()).message_id) == (0, "")


@pytest.mark.parametrize("value", ["5s", "", "0x5", "٥", True, float("inf"), float("nan"), [5], {}, "9" * 21])
def test_delay_that_is_no_number_is_refused_by_its_name(value: Any) -> None:
    assert reason(with_headers({"x-delay": value})).startswith(f"the header x-delay is {value!r:.100}; it must be")


def test_delay_as_a_byte_array_is_read_as_text() -> None:
    assert read(with_headers({"x-delay": b"5000"})).draft.delay_ms == 5_000
    assert reason(with_headers({"x-delay": b"5s"})).startswith("the header x-delay is '5s'; it must be")


def test_delay_beyond_the_longest_is_refused_with_the_limit() -> None:
    assert reason(with_headers({"x-delay": MAX_DELAY_MS + 1})) == (
        "the header x-delay is 86313600001; it must be at most 86313600000, which is 999 days"
    )


@pytest.mark.parametrize("value", [NOW_MS + 5_000, str(NOW_MS + 5_000), NOW_MS - 5, NOW_MS - 400 * 86_400_000, 0, -1])
def test_instant_takes_the_place_of_the_delay(value: Any) -> None:
    found = read(with_headers({"x-deliver-at": value, "x-delay": -3}))

    assert (found.draft.delay_ms, found.draft.deliver_at_ms) == (None, max(0, int(value)))
    assert found.draft.envelope.headers == {"x-deliver-at": value, "x-delay": -3}


@pytest.mark.parametrize(
    ("headers", "wrong"),
    [
        ({"x-deliver-at": NOW_MS + MAX_DELAY_MS + 1}, "it must be at most 999 days ahead, now 2028-10-26T"),
        (
            {"x-deliver-at": 1_769_850_000},
            "x-deliver-at must be Unix milliseconds: 1769850000 is in 1970",
        ),
        ({"x-deliver-at": "tomorrow"}, "the header x-deliver-at is 'tomorrow'; it must be"),
        ({"x-deliver-at": 10**18}, "it must be at most 999 days ahead"),
        ({"x-deliver-at": NOW_MS, "x-delay": 5}, "both say when it is due"),
        ({"x-delay-exchange": 5}, "the header x-delay-exchange is 5; it must be a text"),
        ({"x-delay-exchange": ""}, "it must be neither the default exchange"),
        ({"x-delay-exchange": "delay.checkpoint"}, "nor one of the bridge's own"),
        ({"x-delay-exchange": "shop", "x-delay-routing-key": "k" * 256}, "a text of 255 bytes at most"),
    ],
)
def test_wrong_header_is_refused_with_the_value(headers: dict[str, Any], wrong: str) -> None:
    assert wrong in reason(with_headers(headers))


def test_routing_key_that_is_no_topic_is_refused() -> None:
    assert reason(Message(routing_key="a b")).startswith("the routing key 'a b' is not a topic")


def test_target_comes_from_the_headers_or_from_the_exchange() -> None:
    headers = {"x-delay-exchange": "shop", "x-delay": 5}
    keyed = read(with_headers(headers | {"x-delay-routing-key": "eu.new"})).draft
    of_publisher = read(with_headers(headers, exchange="delay.in.orders-x", routing_key="eu #")).draft

    assert (keyed.topic, keyed.envelope.target) == ("orders", Target("shop", "eu.new"))
    assert read(with_headers(headers)).draft.envelope.target == Target("shop", "orders")
    assert (of_publisher.topic, of_publisher.envelope.target) == (
        "exchanges/orders-x",
        Target("orders-x", "eu #"),
    )
    assert keyed.envelope.headers == of_publisher.envelope.headers == {"x-delay": -5}


def test_clients_properties_are_kept_and_our_headers_are_not() -> None:
    properties = Properties(
        content_type="text/csv",
        message_id="a/b",
        priority=4,
        expiration="60000",
        user_id="till-7",
        timestamp_ms=NOW_MS - 9,
        headers={
            "x-delay-user-id": "boss",
            "x-delay-copy": "9.9",
            "x-death": "no",
            "x-opt-delivery-time": NOW_MS + 60_000,
            "own": 1,
        },
        written={"own": b"I\0\0\0\1", "x-delay-copy": b"S"},
    )

    found = read(Message(properties=properties))

    assert found.draft.envelope.properties == {
        "priority": 4,
        "expiration": "60000",
        "user_id": "till-7",
        "timestamp_ms": NOW_MS - 9,
    }
    assert found.draft.envelope.headers == {"own": 1, "x-delay-message-id": "a/b"}
    assert found.draft.envelope.written == {"own": b"I\0\0\0\1"}
    assert (found.message_id, found.draft.envelope.content_type) == (f"job-{digest_of_name('a/b')}", "text/csv")


@pytest.mark.parametrize("exchange", ["delay.in", "delay.in.E", "delay"])
def test_further_routing_keys_are_refused(exchange: str) -> None:
    message = with_headers({"x-delay": 5, "CC": ["other"]}, exchange=exchange)

    assert reason(message).startswith("the header CC names further routing keys")


def died(message: Message, expiration: str) -> Message:
    entry = {
        "queue": "delay.in",
        "reason": "expired",
        "count": 1,
        "exchange": message.exchange,
        "routing-keys": [message.routing_key],
        "original-expiration": expiration,
    }
    headers = {**(message.properties.headers or {}), "x-death": [entry], "x-first-death-queue": "delay.in"}
    properties = replace(message.properties, headers=headers, expiration=None)
    return replace(message, exchange="delay.checkpoint", properties=properties)


@pytest.mark.parametrize(
    "message", [with_headers({"x-delay": 5}), with_headers({}, exchange="delay.in.shop", routing_key="0.0.0.0.0.0.0.a")]
)
def test_message_that_expired_in_the_ingress_is_the_same_at_the_checkpoint(message: Message) -> None:
    message = replace(message, properties=replace(message.properties, expiration="70"))
    first, expired = read(message), classify(NAMES, died(message, "70"), now_ms=NOW_MS)

    assert isinstance(expired, Submission)
    assert (expired.fingerprint, expired.draft.envelope, expired.topic) == (
        first.fingerprint,
        first.draft.envelope,
        first.topic,
    )
    assert (first.again, expired.again) == (False, True)


def test_redelivered_message_has_its_first_fingerprint() -> None:
    first = with_headers({"x-delay": 5})
    again = replace(with_headers({"x-delay": 5, "x-delivery-count": 1}), redelivered=True, delivery_tag=8)

    assert read(first).fingerprint == read(again).fingerprint
    assert read(again).again


@pytest.mark.parametrize(
    "other",
    [
        with_headers({"x-delay": 6}),
        with_headers({"x-delay": 5}, body=b"1"),
        with_headers({"x-delay": 5}, routing_key="other"),
        with_headers({"x-delay": 5}, exchange="delay"),
        Message(properties=Properties(headers={"x-delay": 5}, message_id="o-2")),
        Message(properties=Properties(headers={"x-delay": 5}, message_id="o-1", priority=1)),
    ],
)
def test_other_message_has_another_fingerprint(other: Message) -> None:
    assert read(other).fingerprint != read(with_headers({"x-delay": 5})).fingerprint


@pytest.mark.parametrize("key", ["orders", "5.orders", "shop/orders", "a.b.c.d.e.f.g.orders"])
def test_message_to_the_wheel_with_a_delay_and_no_key_is_accepted(key: str) -> None:
    found = classify(NAMES, with_headers({"x-delay": 5_000}, exchange="delay", routing_key=key), now_ms=NOW_MS)

    assert isinstance(found, Submission)
    assert (found.topic, found.draft.delay_ms) == (key, 5_000)


def test_message_without_a_delay_needs_the_exchange_of_the_ingress() -> None:
    refused = classify(NAMES, Message(exchange="delay"), now_ms=NOW_MS)
    unbound = classify(NAMES, Message(exchange="delay.in"), now_ms=NOW_MS)

    assert isinstance(refused, Unusable)
    assert refused.reason.endswith("without such a key the message needs the header x-delay")
    assert isinstance(unbound, Submission)


def test_key_of_the_wheel_takes_precedence_over_the_header() -> None:
    message = with_headers({"x-delay": 5_000}, exchange="delay", routing_key="0.0.0.0.0.0.0.orders")

    assert isinstance(classify(NAMES, message, now_ms=NOW_MS), Due)
