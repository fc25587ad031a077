"""Tests that copies are converted to AMQP properties and back."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from bridge.broker.copies.copies import from_properties, target_of, to_properties
from bridge.broker.copies.properties import Properties
from bridge.model.message import UNSET, Copy, Envelope, Target, digest_of_name

NOW_MS = 1_769_850_000_000
COPY = Copy(
    topic="ns/orders",
    id="o-1",
    epoch=3,
    nonce=0xFFFF_FFFF_FFFF,
    attempt=2,
    max_retry=5,
    due_ms=NOW_MS + 1_234,
    expires_ms=NOW_MS + 9_999,
    created_ms=NOW_MS - 4_321,
    asked=7,
    envelope=Envelope(
        content_type="text/plain",
        headers={"trace": "1", "deep": {"a": [1]}},
        body=b"hello",
        properties={"priority": 3, "correlation_id": "c", "reply_to": "r", "app_id": "shop", "message_type": "t"},
    ),
)

CARRIED = {"priority": 3, "expiration": "60000", "user_id": "till-7", "timestamp_ms": NOW_MS - 7_000}


def read(properties: Properties, body: bytes = b"hello") -> Copy:
    return from_properties("ns/orders", properties, body, now_ms=NOW_MS)


@pytest.mark.parametrize(
    "copy",
    [
        COPY,
        replace(COPY, epoch=1, nonce=1, attempt=1, max_retry=0, expires_ms=0, asked=0),
        replace(COPY, epoch=0, nonce=0),
        replace(COPY, envelope=Envelope(body=b"")),
        replace(COPY, envelope=Envelope(body=b"", target=Target("shop", "orders.new"))),
        replace(COPY, envelope=Envelope(body=b"", target=Target("shop", ""))),
        replace(COPY, envelope=Envelope(body=b"", properties=CARRIED)),
    ],
)
def test_copy_survives_the_way_to_properties_and_back(copy: Copy) -> None:
    assert read(to_properties(copy), copy.envelope.body or b"") == copy


def test_copy_is_persistent_and_has_headers_for_consumers() -> None:
    properties = to_properties(COPY, live_for_ms=500, reason="rejected")

    assert properties.headers == {
        "trace": "1",
        "deep": {"a": [1]},
        "x-delay-topic": "ns/orders",
        "x-delay-due": NOW_MS + 1_234,
        "x-delay-attempt": 2,
        "x-delay-max-retry": 5,
        "x-delay-copy": "3.ffffffffffff",
        "x-delay-created": NOW_MS - 4_321,
        "x-delay-expires": NOW_MS + 9_999,
        "x-delay-asked": 7,
        "x-delay-reason": "rejected",
        "x-delay-due-at": "2026-01-31T09:00:01.234Z",
    }
    assert (properties.delivery_mode, properties.expiration, properties.message_id) == (2, "500", "o-1")
    assert properties.timestamp_ms == NOW_MS - 5_000


def test_message_for_a_target_is_as_its_client_sent_it() -> None:
    envelope = Envelope(
        content_type="",
        headers={"x-delay": -5_000, "x-delay-message-id": "a/b"},
        body=b"",
        properties=CARRIED,
        target=Target("shop", "new"),
    )
    copy = replace(COPY, envelope=envelope)

    parked, sent = to_properties(copy, parked=True), to_properties(copy, to_target=True)

    assert (parked.message_id, parked.priority, parked.expiration, parked.timestamp_ms) == (
        *("o-1", None, None),
        NOW_MS - 7_000,
    )
    assert {"x-delay-exchange": "shop", "x-delay-routing-key": "new", "x-delay-priority": 3}.items() <= (
        parked.headers or {}
    ).items()
    assert (sent.message_id, sent.priority, sent.expiration, sent.timestamp_ms, sent.user_id) == (
        *("a/b", 3, "60000", NOW_MS - 7_000),
        None,
    )
    left_out = ("exchange", "routing-key", "message-id", "expiration", "timestamp", "priority")
    assert not {f"x-delay-{name}" for name in left_out} & (sent.headers or {}).keys()
    assert {"x-delay": -5_000, "x-delay-id": "o-1", "x-delay-user-id": "till-7"}.items() <= (sent.headers or {}).items()


@pytest.mark.parametrize(
    ("live_for_ms", "expiration", "released_with"),
    [(0, "500", "500"), (400, "500", "400"), (600, "500", "500"), (0, "0", "1"), (0, None, None)],
)
def test_clients_expiration_counts_from_the_release(
    live_for_ms: int, expiration: str | None, released_with: str | None
) -> None:
    copy = replace(COPY, envelope=Envelope(properties={} if expiration is None else {"expiration": expiration}))

    assert to_properties(copy, live_for_ms=live_for_ms).expiration == released_with
    assert to_properties(copy, parked=True).expiration is None


@pytest.mark.parametrize("header", ["x-delay-user-id", "x-delay-expiration", "x-delay-timestamp"])
def test_clients_own_copy_has_no_properties_out_of_headers(header: str) -> None:
    assert read(Properties(headers={header: "7"})).envelope.properties == {}


@pytest.mark.parametrize(
    "headers",
    [{"x-delay-exchange": 5}, {"x-delay-exchange": "a" * 256}, {"x-delay-exchange": "a", "x-delay-routing-key": 5}],
)
def test_unreadable_target_is_refused_by_the_checkpoint_alone(headers: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="it must be a text of 255 bytes at most"):
        target_of(headers)
    assert read(Properties(headers=headers)).envelope.target is None


def test_copy_without_time_to_live_has_no_expiration() -> None:
    properties = to_properties(replace(COPY, expires_ms=0, asked=0))

    assert properties.expiration is None
    assert (
        not {"x-delay-expires", "x-delay-asked", "x-delay-reason", "x-delay-due-at"} & (properties.headers or {}).keys()
    )


def test_missing_properties_of_a_client_are_filled_in() -> None:
    copy = read(Properties(headers={"mine": 1}, content_type="text/csv", app_id="shop"))

    assert len(copy.id) == 26
    assert copy == Copy(
        topic="ns/orders",
        id=copy.id,
        epoch=0,
        nonce=0,
        attempt=1,
        max_retry=UNSET,
        due_ms=NOW_MS,
        expires_ms=0,
        created_ms=NOW_MS,
        envelope=Envelope(content_type="text/csv", headers={"mine": 1}, body=b"hello", properties={"app_id": "shop"}),
    )
    bare = read(Properties())
    assert (bare.envelope.content_type, bare.envelope.headers) == ("", {})
    assert bare.id != copy.id


def test_content_type_that_a_client_left_out_stays_absent() -> None:
    assert to_properties(read(Properties())).content_type is None
    assert to_properties(read(Properties(content_type="text/csv"))).content_type == "text/csv"
    assert to_properties(replace(COPY, envelope=Envelope())).content_type == "application/json"


@pytest.mark.parametrize("message_id", ["a/b", "ä", "x" * 201, "a\n"])
def test_invalid_id_is_replaced_by_its_digest_and_every_copy_has_the_clients(message_id: str) -> None:
    first = read(Properties(message_id=message_id))
    second = read(to_properties(first))

    assert first.id == read(Properties(message_id=message_id)).id == f"job-{digest_of_name(message_id)}"
    assert second.id == first.id
    assert (to_properties(second).headers or {})["x-delay-message-id"] == message_id


@pytest.mark.parametrize("message_id", [None, "", "o-1"])
def test_absent_or_valid_id_leaves_no_header(message_id: str | None) -> None:
    copy = read(Properties(message_id=message_id))

    assert copy.id == message_id or len(copy.id) == 26
    assert copy.envelope.headers == {}


def test_headers_of_the_broker_and_for_routing_are_not_restored() -> None:
    sent: dict[str, Any] = {
        "CC": ["other"],
        "BCC": ["other"],
        "x-death": [{"queue": "q"}],
        "x-first-death-queue": "q",
        "x-last-death-reason": "expired",
        "x-delivery-count": 3,
        "x-acquired-count": 4,
        "x-opt-delivery-time": NOW_MS + 60_000,
        "x-delay-due": NOW_MS,
        "x-delay-due-at": "2026-01-31T09:00:00.000Z",
        "x-delay-anything": 1,
        "cc": "kept",
        "x-delayed": "kept",
    }
    copy = read(Properties(headers=sent))

    assert copy.envelope.headers == {"cc": "kept", "x-delayed": "kept"}


ODD: list[Any] = [None, True, -1, 1.5, "1", b"1", [], {}, [1], {"a": 1}, datetime(2026, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize("value", ODD)
@pytest.mark.parametrize("name", ["due", "attempt", "max-retry", "expires", "asked"])
def test_number_of_a_wrong_type_counts_as_absent(name: str, value: Any) -> None:
    copy = read(Properties(message_id="o-1", headers={f"x-delay-{name}": value}))

    assert replace(copy, envelope=Envelope()) == replace(read(Properties(message_id="o-1")), envelope=Envelope())


@pytest.mark.parametrize(
    "value",
    [
        *ODD,
        "",
        ".",
        "1",
        "1.",
        ".1",
        "x.1",
        "1.x",
        "1.g",
        "9" * 5_000 + ".1",
        "1." + "f" * 20_000,
        "-1.1",
        "1.-1",
        "1_0.1",
    ],
)
def test_malformed_epoch_and_nonce_count_as_absent(value: Any) -> None:
    copy = read(Properties(headers={"x-delay-copy": value}))

    assert (copy.epoch, copy.nonce) == (0, 0)


def test_due_moment_is_capped_at_the_longest_delay() -> None:
    forged: dict[str, Any] = {"x-delay-copy": "1.a", "x-delay-due": 2**62}

    assert read(Properties(headers=forged)).due_ms == NOW_MS + 999 * 86_400_000


@pytest.mark.parametrize(("live_for_ms", "expiration"), [(0, None), (1, "1"), (2**32 - 1, "4294967295"), (2**32, None)])
def test_expiration_beyond_the_limit_of_the_broker_is_left_out(live_for_ms: int, expiration: str | None) -> None:
    assert to_properties(COPY, live_for_ms=live_for_ms).expiration == expiration


def test_priority_is_kept_in_a_header_in_the_wheel() -> None:
    properties = to_properties(COPY, parked=True)

    assert properties.priority is None
    assert read(properties) == COPY
