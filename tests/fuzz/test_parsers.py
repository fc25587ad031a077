"""Tests that every parser of foreign bytes, texts and tables either reads them or refuses them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.broker.copies.classify import Due, Returned, Unusable, classify, submitted
from bridge.broker.copies.copies import from_properties, to_properties
from bridge.broker.copies.properties import Properties
from bridge.broker.copies.submissions import Submission
from bridge.http.v1.contract import queries
from bridge.model.durations import LATEST_INSTANT_MS, parse_duration_ms, parse_instant_ms
from bridge.model.errors import InvalidRequest
from bridge.model.message import Copy, Envelope, valid_id
from bridge.service.protocol import receipts
from bridge.store.messages.envelopes import pack, unpack
from tests.examples import examples
from topology.deaths import deaths, latest_death, strip
from topology.names import Names

NOW_MS = 1_769_850_000_000
NAMES = Names()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
# Values of every AMQP type, as pamqp gives them.
FIELDS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=20), inner, max_size=3),
    max_leaves=8,
)
OURS = st.sampled_from(
    [
        *(
            f"x-delay-{what}"
            for what in ("topic", "due", "attempt", "max-retry", "copy", "expires", "asked", "priority")
        ),
        *(f"x-delay-{what}" for what in ("exchange", "routing-key", "expiration", "timestamp", "user-id")),
        *("x-delay", "x-deliver-at"),
    ]
)
DEATH = st.fixed_dictionaries(
    {},
    optional={
        "queue": FIELDS | st.sampled_from(["ready.orders", "delay.000d-00h-30m", b"delay.000d-00h-00m-05s"]),
        "reason": FIELDS | st.sampled_from(["expired", "rejected"]),
        "count": FIELDS,
        "exchange": FIELDS,
        "routing-keys": FIELDS,
        "original-expiration": FIELDS,
    },
)
TABLES = st.dictionaries(OURS | st.text(max_size=20), FIELDS, max_size=6) | st.fixed_dictionaries(
    {"x-death": FIELDS | st.lists(DEATH | FIELDS, max_size=3)}, optional={"x-delay-copy": FIELDS}
)
KEYS = st.text(max_size=60) | st.sampled_from(["orders", "0.0.0.0.30.5.2.orders", "0.0.0.0.0.0.0.!lease.a/b", "0.0."])


@dataclass
class Delivered:
    routing_key: str
    properties: Properties
    body: bytes
    delivery_tag: int = 7
    exchange: str = "delay"
    redelivered: bool = False


@given(KEYS, TABLES, st.none() | st.text(max_size=80), st.binary(max_size=20))
@examples(300)
def test_any_table_of_headers_is_due_returned_or_unusable(
    key: str, headers: dict[str, Any], message_id: str | None, body: bytes
) -> None:
    message = Delivered(key, Properties(message_id=message_id, headers=headers), body)
    found = classify(NAMES, message, now_ms=NOW_MS)

    assert isinstance(found, Due | Returned | Submission | Unusable)
    if isinstance(found, Due | Returned):
        assert valid_id(found.copy.id)
        assert found.copy.attempt >= 1
        assert found.copy.envelope.body == body
        ours = {
            name: value
            for name, value in found.copy.envelope.headers.items()
            if name.startswith(("x-delay-", "x-death"))
        }
        clients_id = headers.get("x-delay-message-id") if found.copy.id == message_id else message_id
        assert ours == ({"x-delay-message-id": clients_id} if clients_id else {})


@given(KEYS, TABLES, st.none() | st.text(max_size=80), st.sampled_from(["delay.in", "delay.in.shop", "delay"]))
@examples(300)
def test_any_table_of_headers_is_accepted_or_unusable(
    key: str, headers: dict[str, Any], message_id: str | None, exchange: str
) -> None:
    message = Delivered(key, Properties(message_id=message_id, headers=headers), b"", exchange=exchange)
    found = submitted(NAMES, message, now_ms=NOW_MS)

    assert isinstance(found, Submission | Unusable)
    if isinstance(found, Submission):
        assert not found.message_id or valid_id(found.message_id)
        assert 0 <= (found.draft.delay_ms or found.draft.deliver_at_ms or 0) <= LATEST_INSTANT_MS


@given(TABLES)
@examples(300)
def test_deaths_are_read_from_any_table(headers: dict[str, Any]) -> None:
    died = deaths(headers)
    assert all(isinstance(death.queue, str) and isinstance(death.reason, str) for death in died)
    latest = latest_death(headers)
    assert latest is None or latest == (died[0].queue, died[0].reason)
    assert "x-death" not in strip(headers)


@given(
    st.dictionaries(st.from_regex(r"h[!-~]{0,9}", fullmatch=True), st.text() | st.booleans() | st.integers(0, 9)),
    st.binary(),
)
@examples(100)
def test_a_copy_comes_back_from_its_properties(headers: dict[str, Any], body: bytes) -> None:
    copy = Copy(
        topic="a/b", id="o-1", epoch=2, nonce=10, attempt=1, max_retry=3, due_ms=NOW_MS, expires_ms=NOW_MS + 5,
        created_ms=NOW_MS - NOW_MS % 1_000, envelope=Envelope(content_type="text/plain", headers=headers, body=body),
    )  # fmt: skip
    assert from_properties("a/b", to_properties(copy), body, now_ms=NOW_MS) == copy


@given(st.dictionaries(st.text(), JSON, max_size=4), st.binary(), st.text())
@examples(200)
def test_envelope_round_trips(headers: dict[str, Any], body: bytes, content_type: str) -> None:
    headers = json.loads(json.dumps(headers), parse_int=lambda digits: int(digits) % 2**53)
    envelope = Envelope(content_type=content_type, headers=headers, body=body)
    assert unpack(pack(envelope, 1 << 20)) == envelope


@given(st.from_regex(r"(P?T?[0-9.]*(ms|[smhdwSMHDW]))+") | st.text(max_size=70) | JSON)
@example("\u0665m")
@example("P")
@example("9" * 63 + "d")
@examples(300)
def test_a_duration_is_a_whole_number_of_milliseconds_or_refused(written: object) -> None:
    try:
        duration_ms = parse_duration_ms(written)
    except ValueError:
        return
    assert duration_ms >= 0
    assert type(duration_ms) is int
    assert not isinstance(written, str) or written.isascii()


@given(
    st.datetimes(timezones=st.timezones()).map(lambda moment: moment.isoformat())
    | st.from_regex(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}.{0,20}")
    | JSON
)
@example("0001-01-01T00:00:00+23:59")
@example("9999-12-31T23:59:59-23:59")
@examples(300)
def test_an_instant_is_not_before_1970_or_refused(written: object) -> None:
    try:
        assert parse_instant_ms(written) >= 0
    except ValueError:
        return


@given(st.binary())
@examples(200)
def test_any_query_is_read(query: bytes) -> None:
    assert all(isinstance(name, str) for name in queries.read(query))


@given(st.text() | st.from_regex(r"[A-Za-z0-9_=-]{0,40}"))
@example("MTAwLsKg")
@examples(200)
def test_a_receipt_that_nobody_made_is_refused(written: str) -> None:
    try:
        receipt = receipts.read(written)
    except InvalidRequest:
        return
    assert receipts.make(receipt) == written


@pytest.mark.parametrize("epoch", [1, 10**400])
def test_a_receipt_that_was_made_is_read(epoch: int) -> None:
    receipt = receipts.Receipt("o-1", epoch, 7)
    assert receipts.read(receipts.make(receipt)) == receipt
