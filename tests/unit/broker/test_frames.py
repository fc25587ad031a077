"""Tests that frames encoded by hand equal those of pamqp, byte for byte."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pamqp import commands as spec
from pamqp.body import ContentBody
from pamqp.frame import marshal
from pamqp.header import ContentHeader

from bridge.broker.client import frames
from bridge.broker.client.encode_properties import CopyProperties, encode_properties
from bridge.broker.copies.copies import to_properties
from bridge.broker.copies.properties import Properties
from bridge.model.message import Copy, Envelope
from bridge.tracing.context import OF_RELEASE
from tests.examples import examples
from tests.unit.broker.reference import encoded_own

# A moment beyond what the C library knows is an OSError.
_UNWRITABLE = (TypeError, ValueError, ArithmeticError, OSError, struct.error)

WHOLE = st.integers(0, 300) | st.integers(0, 2**63 - 1) | st.integers(-(2**70), 2**70)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64)
    | st.floats(allow_nan=False)
    | st.decimals()
    | st.text()
    | st.binary()
    | st.datetimes(timezones=st.just(UTC)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.text(max_size=9) | st.sampled_from(
    [
        "a",
        "x-delay",
        "x-delay-",
        "x-delay-due",
        "x-delay-due-at",
        "x-delay-mine",
        OF_RELEASE,
        "x-delayed",
        "z",
        "x" * 32,
        "ä" * 32,
        "ä" * 70,
        "\ud800",
    ]
)
ENVELOPES = st.builds(
    Envelope,
    content_type=st.sampled_from(["application/json", "text/plain", ""]) | st.text(max_size=300),
    headers=st.just({}) | st.dictionaries(NAMES, VALUES, max_size=5),
    properties=st.just({})
    | st.fixed_dictionaries(
        {}, optional={"priority": st.integers(0, 300), "correlation_id": st.text(max_size=9), "app_id": st.text()}
    ),
)
COPIES = st.builds(
    Copy,
    topic=st.text(max_size=20),
    id=st.text(max_size=300),
    epoch=st.integers(0, 2**50),
    nonce=st.integers(0, 2**48),
    attempt=WHOLE,
    max_retry=WHOLE,
    due_ms=WHOLE,
    expires_ms=WHOLE,
    created_ms=st.integers(0, 4 * 10**12) | st.integers(-(10**6), 10**16),
    asked=WHOLE,
    envelope=ENVELOPES,
)
PLAIN = Copy(
    topic="orders", id="o-1", epoch=1, nonce=10, attempt=1, max_retry=3, due_ms=1_769_850_000_123, expires_ms=0,
    created_ms=1_769_850_000_000, envelope=Envelope(),
)  # fmt: skip

TRACED = replace(PLAIN, expires_ms=5, asked=1, envelope=Envelope(headers={"a": "1", OF_RELEASE: "released", "y": 2}))


def packed(properties: Properties | CopyProperties) -> bytes | None:
    """Encodes properties. None: AMQP has no such value."""
    try:
        return encode_properties(properties)
    except _UNWRITABLE:
        return None


@examples(100)
@given(COPIES, st.booleans(), st.integers(0, 2**33), st.just("") | st.text(max_size=20))
@example(PLAIN, True, 0, "")
@example(PLAIN, False, 1, "rejected")
@example(TRACED, False, 1, "")
@example(TRACED, False, 0, "rejected")
def test_properties_of_a_copy_are_encoded_or_refused_as_by_pamqp(
    copy: Copy, parked: bool, live_for_ms: int, reason: str
) -> None:
    given: dict[str, Any] = {"parked": parked, "live_for_ms": live_for_ms, "reason": reason}
    # pamqp cuts longer names.
    assume(all(len(name.encode(errors="replace")) <= 128 for name in copy.envelope.headers))
    try:
        expected = encoded_own(to_properties(copy, **given))
    except _UNWRITABLE:
        expected = None

    written = CopyProperties(copy, **given)

    assert packed(written) == expected
    with suppress(*_UNWRITABLE):
        assert packed(to_properties(copy, **given)) == expected
    assert written.message_id == copy.id


@pytest.mark.parametrize("exchange", ["", "delay.ready", "x" * 127])
@pytest.mark.parametrize("key", ["", "orders", "0.0.0.0.30.5.2.ä", "k" * 255, "k" * 256, "\ud800"])
def test_publish_frame_is_encoded_or_refused_as_by_pamqp(exchange: str, key: str) -> None:
    try:
        expected = marshal(spec.Basic.Publish(exchange=exchange, routing_key=key, mandatory=True), 513)
    except _UNWRITABLE:
        with pytest.raises(_UNWRITABLE):
            frames.publish(513, exchange, key)
    else:
        assert frames.publish(513, exchange, key) == expected


@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 20, 25])
def test_header_and_body_frames_are_those_of_pamqp(size: int) -> None:
    content = bytes(range(size))
    properties = spec.Basic.Properties(message_id="o-1", timestamp=datetime(2026, 1, 31, tzinfo=UTC))

    header = marshal(ContentHeader(properties=properties, body_size=size), 7)
    parts = [marshal(ContentBody(content[start : start + 10]), 7) for start in range(0, size, 10)]

    assert frames.header(7, properties.marshal(), size) == header
    assert b"".join(frames.body(7, content, 10)) == b"".join(parts)


@pytest.mark.parametrize(("up_to", "single"), [(0, ()), (5, ()), (0, (7,)), (2**40, (2**40 + 2, 2**40 + 3))])
def test_ack_frames_are_those_of_pamqp(up_to: int, single: tuple[int, ...]) -> None:
    expected = [spec.Basic.Ack(up_to, multiple=True)] if up_to else []
    expected += [spec.Basic.Ack(tag) for tag in single]

    assert frames.acks(9, up_to, single) == b"".join(marshal(frame, 9) for frame in expected)


def test_get_frame_is_that_of_pamqp() -> None:
    assert frames.get(9, "ready.orders") == marshal(spec.Basic.Get(queue="ready.orders"), 9)


@pytest.mark.parametrize("field", ["content_type", "correlation_id", "app_id", "headers"])
def test_property_of_another_type_is_refused(field: str) -> None:
    given: Any = {field: 5}

    with pytest.raises((TypeError, ValueError, AttributeError)):
        encode_properties(Properties(**given))


@pytest.mark.parametrize("exchange", ["no name!", "x" * 200])
def test_publish_to_an_exchange_that_pamqp_does_not_know_is_left_to_rabbitmq(exchange: str) -> None:
    assert exchange.encode() in frames.publish(7, exchange, "orders")


@pytest.mark.parametrize("exchange", ["ä", "x" * 256])
def test_exchange_over_which_rabbitmq_would_close_the_connection_is_refused(exchange: str) -> None:
    with pytest.raises(ValueError, match=r"exchange|255"):
        frames.publish(7, exchange, "orders")
