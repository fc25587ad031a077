"""Tests packing copies into one message and reading them, and refusing malformed and forged bundles."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bridge.broker.client.encode_properties import CopyProperties
from bridge.broker.copies import bundles
from bridge.broker.copies.bundles import (
    LARGEST_ENTRY,
    MOST_BYTES,
    MOST_COPIES,
    Entry,
    Packed,
    is_of_bundle,
    kind_within,
)
from bridge.broker.copies.copies import from_properties, to_properties
from bridge.broker.copies.entries import decode, encode
from bridge.broker.copies.properties import Properties
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import Copy, Envelope
from bridge.model.values import MAX_DELAY_MS
from bridge.service.protocol.successors import completed
from tests.effective import effective

NOW_MS = 1_769_850_000_000
SMALLEST_FRAME_BYTES = 4_096
COPY = Copy(
    topic="ns/orders",
    id="o-1",
    epoch=3,
    nonce=0xFFFF_FFFF_FFFF,
    attempt=2,
    max_retry=5,
    due_ms=NOW_MS + 1_234,
    expires_ms=NOW_MS + 9_999,
    created_ms=NOW_MS - 5_000,
    envelope=Envelope(
        content_type="text/plain",
        headers={"trace": "1", "ratio": 0.1, "seen": True, "count": -(2**63)},
        body=b"hello\n[1]\n",
        properties={"priority": 3, "correlation_id": "c", "reply_to": "r", "app_id": "shop", "message_type": "t"},
    ),
)
PLAIN = replace(COPY, id="o-2", envelope=Envelope(body=b'{"order":1}'))

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
values = st.one_of(
    st.text(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False)
)
envelopes = st.builds(
    Envelope,
    content_type=st.sampled_from(["application/json", "text/csv"]),
    headers=st.dictionaries(names.map(lambda name: f"h{name}"), values, max_size=3),
    body=st.binary(max_size=300),
    properties=st.fixed_dictionaries({}, optional={"priority": st.integers(0, 255), "reply_to": st.text(max_size=9)}),
)
copies = st.builds(
    Copy,
    topic=st.just("ns/orders"),
    id=st.text("abc.-0 ", min_size=1, max_size=30),
    epoch=st.integers(1, 10**14),
    nonce=st.integers(0, 2**48 - 1),
    attempt=st.integers(1, 100),
    max_retry=st.integers(0, 10_000),
    due_ms=st.integers(NOW_MS - 10**6, NOW_MS + MAX_DELAY_MS),
    expires_ms=st.integers(0, NOW_MS * 2),
    created_ms=st.integers(0, NOW_MS),
    envelope=envelopes,
)


def entry(copy: Copy) -> Entry:
    data = encode(copy)
    assert data is not None
    return Entry(copy.due_ms, data)


def pack(copies: Sequence[Copy]) -> list[Packed]:
    return bundles.pack("ns/orders", [entry(copy) for copy in copies])


def read(properties: Properties, body: bytes, topic: str = "ns/orders") -> list[Copy]:
    offsets = bundles.index(properties, body).offsets
    return [decode(topic, body[start:end], now_ms=NOW_MS) for start, end in pairwise(offsets)]


def alone(copy: Copy) -> Copy:
    """Returns the copy as it arrives when it travels as a single message."""
    properties = to_properties(copy, parked=True)
    return from_properties("ns/orders", properties, copy.envelope.body or b"", now_ms=NOW_MS)


def packed(copies: Sequence[Copy]) -> tuple[Properties, bytes]:
    (bundle,) = pack(copies)
    return bundle.properties, bundle.body


@given(st.lists(copies, min_size=2, max_size=8))
@example([replace(PLAIN, id="."), replace(PLAIN, id="..")])  # no new message can have these ids
def test_copy_out_of_a_bundle_equals_the_copy_that_travels_alone(sent: list[Copy]) -> None:
    (bundle,) = pack(sent)

    in_order = [sent[at] for at in bundle.indexes]
    assert read(bundle.properties, bundle.body) == [alone(copy) for copy in in_order]
    assert in_order == sorted(sent, key=lambda copy: copy.due_ms)


def test_bundle_describes_itself_in_headers_and_first_line() -> None:
    properties, body = packed([COPY, replace(PLAIN, due_ms=NOW_MS + 1_200)])

    assert properties.headers == {
        "x-delay-topic": "ns/orders",
        "x-delay-due": NOW_MS + 1_200,
        "x-delay-last": NOW_MS + 1_234,
        "x-delay-bundle": 2,
    }
    assert properties.content_type == "application/vnd.delaybridge.bundle"
    assert (properties.delivery_mode, properties.expiration, properties.priority) == (2, None, None)
    assert len(properties.message_id or "") == 26
    head, index, first, *_ = body.decode().splitlines()
    assert head.startswith("2 copies for ns/orders")
    assert orjson.loads(index)[::2] == [NOW_MS + 1_200, NOW_MS + 1_234]
    assert orjson.loads(first)[1] == "o-2"


def test_bundle_of_one_copy_says_so() -> None:
    _, body = packed([COPY])

    assert body.startswith(b"1 copy for ns/orders")


@pytest.mark.parametrize(
    "odd",
    [
        replace(PLAIN, epoch=0, nonce=0),
        replace(PLAIN, asked=1),
        replace(PLAIN, envelope=Envelope(body=b"x" * MOST_BYTES)),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"deep": {"a": 1}})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"list": [1]})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"bytes": b"\xff"})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"nothing": None})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"none": float("nan")})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"wide": 2**63})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"half a pair": "\ud800"})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"\ud800": "half a pair"})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"n" * 256: "a name no header has"})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"long": "x" * 40_000})),
        replace(PLAIN, envelope=Envelope(body=b"", content_type="t" * 256)),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"typed": 5}, written={"typed": b"I\0\0\0\5"})),
        replace(PLAIN, envelope=Envelope(body=b"", headers={"x-delay-message-id": "a/b"})),
    ],
)
def test_copy_that_json_can_not_hold_has_no_entry(odd: Copy) -> None:
    data = encode(odd)

    assert data is None or len(data) > LARGEST_ENTRY


def test_bundle_holds_a_limited_number_of_copies() -> None:
    sent = pack([replace(PLAIN, id=str(at)) for at in range(2 * MOST_COPIES + 1)])

    assert [len(bundle.indexes) for bundle in sent] == [MOST_COPIES, MOST_COPIES, 1]


def test_bundle_holds_a_limited_number_of_bytes() -> None:
    large = Envelope(body=b"x" * (MOST_BYTES // 4))
    sent = pack([replace(PLAIN, id=str(at), envelope=large) for at in range(7)])

    assert [bundle.indexes for bundle in sent] == [(0, 1, 2), (3, 4, 5), (6,)]
    assert all(len(bundle.body) <= MOST_BYTES + 250 for bundle in sent)


def test_topic_is_read_from_the_key() -> None:
    properties, body = packed([COPY, PLAIN])

    assert {copy.topic for copy in read(properties, body, "mails")} == {"mails"}


def forged(*lines: Any, body: bytes = b"", count: Any = None) -> tuple[Properties, bytes]:
    count = len(lines) if count is None else count
    entries = b"".join(b"%b\n%b\n" % (orjson.dumps(line), body) for line in lines)
    return Properties(headers={"x-delay-bundle": count}), b"copies\n" + entries


FAIR = [0, "o-1", 1, 2, 1, 3, NOW_MS, 0, NOW_MS]


def test_header_by_which_rabbitmq_would_hold_a_copy_again_is_left_out() -> None:
    (copy,) = read(*forged([*FAIR, "text/plain", {"x-opt-delivery-time": NOW_MS + 60_000, "own": 1}, {}]))

    assert copy.envelope.headers == {"own": 1}


def test_forged_line_with_valid_fields_is_a_copy() -> None:
    (copy,) = read(*forged(FAIR))

    assert (copy.id, copy.epoch, copy.nonce) == ("o-1", 1, 2)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        *((place, value) for place in (0, 2, 3, 4, 5, 6, 7, 8) for value in (-1, 1.0, "1", None, True, 2**53, [1])),
        *((place, 0) for place in (2, 4)),  # a nonce of 0 is that of an AMQP client's own message
        (2, 10**15),
        (3, 2**48),
        (7, LATEST_INSTANT_MS + 1),
        (8, LATEST_INSTANT_MS + 1),
        (0, 1),
        *((1, value) for value in ("", "a/b", "ä", "x" * 201, "a\n", 7, None)),
    ],
)
def test_wrong_field_makes_the_bundle_unreadable(place: int, value: Any) -> None:
    line = [*FAIR[:place], value, *FAIR[place + 1 :]]

    with pytest.raises((ValueError, TypeError)):
        read(*forged(FAIR, line))


def test_largest_fields_equal_those_of_a_copy_that_travels_alone() -> None:
    (copy,) = read(*forged([0, "x" * 200, 10**15 - 1, 2**48 - 1, 9, 9, NOW_MS, LATEST_INSTANT_MS, LATEST_INSTANT_MS]))

    came = alone(copy)
    assert (came.epoch, came.nonce, came.created_ms) == (10**15 - 1, 2**48 - 1, LATEST_INSTANT_MS)


@given(
    facts=st.dictionaries(
        st.sampled_from(
            [f"x-delay-{name}" for name in ("attempt", "max-retry", "due", "expires", "asked", "priority")]
        ),
        st.one_of(st.integers(-(2**63), 2**63 - 1), st.text(max_size=3), st.floats(), st.booleans()),
    ),
    copy=st.none() | st.from_regex(r"\A[0-9]{1,16}\.[0-9a-f]{1,13}\Z"),
)
@example(facts={"x-delay-expires": 2**62}, copy=None)
@example(facts={"x-delay-attempt": 2**62}, copy=None)
@example(facts={"x-delay-max-retry": 2**62}, copy=None)
@example(facts={}, copy="999999999999999.1")
def test_headers_of_a_client_never_spoil_a_bundle(facts: dict[str, Any], copy: str | None) -> None:
    headers = facts if copy is None else facts | {"x-delay-copy": copy}
    properties = Properties(headers=headers, message_id="strange", content_type="application/json")
    strange = completed(from_properties(PLAIN.topic, properties, b"{}", now_ms=NOW_MS), effective())
    # A lease copy of it, which has an epoch.
    strange = replace(strange, epoch=max(strange.epoch, 1) + 1, nonce=1, attempt=strange.attempt + 1, asked=0)

    data = encode(strange)
    if data is not None:
        (bundle,) = bundles.pack("ns/orders", [entry(PLAIN), Entry(strange.due_ms, data), entry(COPY)])
        assert {one.id for one in read(bundle.properties, bundle.body)} == {"o-1", "o-2", "strange"}


def test_packed_headers_fit_the_smallest_frame() -> None:
    sizes = [
        len(CopyProperties(copy).encode())
        for count in range(500)
        if encode(copy := replace(COPY, envelope=Envelope(headers={str(at): at for at in range(count)})))
    ]

    assert 1_000 < max(sizes) <= SMALLEST_FRAME_BYTES - 8 - 12


@pytest.mark.parametrize(
    "line",
    [
        FAIR[:-1],
        [*FAIR, "text/plain"],
        [*FAIR, "text/plain", {}, {}, {}],
        [*FAIR, 1, {}, {}],
        [*FAIR, "text/plain", [], {}],
        [*FAIR, "text/plain", {}, []],
        [*FAIR, "text/plain", {"CC": "other"}, {}],
        [*FAIR, "text/plain", {"BCC": "other"}, {}],
        [*FAIR, "text/plain", {"x-death": "q"}, {}],
        [*FAIR, "text/plain", {"x-delay-copy": "9.9"}, {}],
        [*FAIR, "text/plain", {"deep": {}}, {}],
        [*FAIR, "text/plain", {}, {"message_id": "o-2"}],
        [*FAIR, "text/plain", {}, {"delivery_mode": 1}],
        [*FAIR, "text/plain", {}, {}, "shop"],
        [*FAIR, "text/plain", {}, {}, "shop", 1],
        [*FAIR, "text/plain", {}, {}, "shop", "key", "more"],
        {},
        7,
        "o-1",
        [],
    ],
)
def test_wrong_line_makes_the_bundle_unreadable(line: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        read(*forged(FAIR, line))


@pytest.mark.parametrize("count", [0, -1, 1, 3, 2.0, "2", None, True, MOST_COPIES + 1, 2**60, [2]])
def test_wrong_count_makes_the_bundle_unreadable(count: Any) -> None:
    properties, body = packed([COPY, PLAIN])
    headers = dict(properties.headers or {}) | {"x-delay-bundle": count}

    with pytest.raises((ValueError, TypeError)):
        read(Properties(headers=headers), body)


@pytest.mark.parametrize(
    "index",
    [
        [],
        [NOW_MS],
        [NOW_MS, 5],
        [NOW_MS + 1, "first", NOW_MS, "second"],
        [NOW_MS, "first", NOW_MS, "second", NOW_MS, 1],
        [NOW_MS, "first", NOW_MS, 10**9],
        [NOW_MS, -1, NOW_MS, "second"],
        [NOW_MS, 0, NOW_MS, "both"],
        [1.5, "first", NOW_MS, "second"],
        [NOW_MS, "first", None, "second"],
        {"a": 1},
        7,
    ],
)
def test_wrong_index_makes_the_bundle_unreadable(index: Any) -> None:
    properties, body = packed([COPY, replace(PLAIN, due_ms=COPY.due_ms)])
    head, line, entries = body.split(b"\n", 2)
    _, first, _, second = orjson.loads(line)
    sizes = {"first": first, "second": second, "both": first + second}
    forged = [sizes.get(one, one) if isinstance(one, str) else one for one in index] if type(index) is list else index

    with pytest.raises((ValueError, TypeError, LookupError)):
        read(properties, b"\n".join((head, orjson.dumps(forged), entries)))


@given(st.data())
def test_truncated_bundle_is_unreadable(data: st.DataObject) -> None:
    properties, body = packed([COPY, PLAIN])
    assert len(read(properties, body)) == 2
    cut = data.draw(st.integers(0, len(body) - 1))

    with pytest.raises((ValueError, TypeError)):
        read(properties, body[:cut])


@given(st.binary(max_size=200))
def test_random_bytes_are_unreadable(body: bytes) -> None:
    with pytest.raises((ValueError, TypeError)):
        read(Properties(headers={"x-delay-bundle": 1}), body)


@pytest.mark.parametrize(
    ("kind", "within"), [("lease-parcel", "lease"), ("plain-parcel", "plain"), ("lease-bundle", "lease")]
)
def test_a_bundle_under_its_former_name_is_read(kind: str, within: str) -> None:
    assert is_of_bundle(kind)
    assert kind_within(kind) == within


def test_former_bundle_without_an_index_is_read() -> None:
    """All its copies count as due with the earliest."""
    entries = (entry(PLAIN), entry(replace(COPY, due_ms=NOW_MS)))
    body = b"2 copies for ns/orders: for each a line\n" + b"".join(one.data for one in entries)
    former = Properties(headers={"x-delay-parcel": 2, "x-delay-due": NOW_MS})

    assert bundles.count(former) == 2
    assert bundles.index(former, body).dues_ms == [NOW_MS, NOW_MS]
    assert read(former, body) == [PLAIN, replace(COPY, due_ms=NOW_MS)]
