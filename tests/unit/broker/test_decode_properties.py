"""Tests that properties decoded by hand equal those that pamqp decodes, even malformed ones."""

from __future__ import annotations

import struct
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp.commands import Basic

from bridge.broker.client.decode_properties import decode_properties
from bridge.broker.client.encode_properties import CopyProperties, encode_properties
from bridge.broker.copies import properties as own
from bridge.broker.copies.copies import from_properties
from bridge.broker.copies.properties import UNREADABLE, Properties, UnreadDeaths
from tests.examples import examples
from tests.unit.broker.reference import decoded, encoded
from topology.deaths import deaths, latest_death

# pamqp reads a later moment as milliseconds, and can't write it as it came.
MOMENTS = st.integers(0, 2**32 - 1).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.integers(-200, 200)
    | st.floats()
    | st.decimals(-1000, 1000, places=2)
    | st.text()
    | st.binary()
    | st.binary().map(bytearray)
    | MOMENTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
DEATH = st.fixed_dictionaries(
    {},
    optional={
        "count": VALUES,
        "reason": st.sampled_from(["expired", "rejected"]) | VALUES,
        "queue": st.sampled_from(["ready.orders", "delay.000d-00h-30m"]) | VALUES,
        "routing-keys": VALUES,
        "time": VALUES,
    },
)
PLAIN = st.dictionaries(st.sampled_from(["x-delay-due", "ä"]) | st.text(max_size=30), VALUES, max_size=4)
HEADERS = PLAIN | st.builds(
    dict.__or__, PLAIN, st.builds(dict, **{"x-death": st.lists(DEATH | VALUES, max_size=3) | VALUES})
)
TEXTS = st.none() | st.text(max_size=60)


def properties_with(headers: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[Basic.Properties]:
    return st.builds(
        Basic.Properties,
        content_type=TEXTS,
        content_encoding=TEXTS,
        headers=st.none() | headers,
        delivery_mode=st.sampled_from([None, 1, 2]),
        priority=st.none() | st.integers(0, 255),
        correlation_id=TEXTS,
        reply_to=TEXTS,
        expiration=TEXTS,
        message_id=TEXTS,
        timestamp=st.none() | MOMENTS,
        message_type=TEXTS,
        user_id=TEXTS,
        app_id=TEXTS,
    )


def shown_pamqp(properties: Basic.Properties) -> str:
    """Shows all properties as text, since NaN does not equal itself."""
    values: dict[str, Any] = dict(properties)
    if properties.timestamp is not None:
        values["timestamp"] = int(properties.timestamp.timestamp() * 1_000)
    return repr(list(values.values()))


def shown(properties: Properties) -> str:
    """Shows all properties as text, with the deaths read."""
    values = {name: getattr(properties, name) for name in Properties.__slots__ if name != "written"}
    headers: dict[str, Any] | None = properties.headers
    if headers is not None and isinstance(died := headers.get("x-death"), UnreadDeaths):
        values["headers"] = headers | {"x-death": died.read()}
    values["cluster_id"] = values["cluster_id"] or ""
    return repr(list(values.values()))


@examples(100)
@given(properties_with(HEADERS))
def test_properties_are_decoded_as_pamqp_decodes_them(properties: Basic.Properties) -> None:
    content = encoded(properties)

    assert shown(decode_properties(content)) == shown_pamqp(decoded(content))


@examples(100)
@given(properties_with(PLAIN), st.data())
def test_malformed_bytes_are_decoded_as_pamqp_decodes_them(properties: Basic.Properties, data: st.DataObject) -> None:
    content = bytearray(encoded(properties))
    content[data.draw(st.integers(12, len(content) - 1))] = data.draw(st.integers(0, 255))

    assert shown(decode_properties(bytes(content))) == shown_pamqp(decoded(bytes(content)))


@examples(100)
@given(properties_with(PLAIN))
def test_decoded_properties_are_encoded_to_the_same_bytes(properties: Basic.Properties) -> None:
    content = encoded(properties)

    assert encode_properties(decode_properties(content)) == encoded(decoded(content))[12:]


WRITTEN: list[tuple[str, bytes]] = [
    ("Integer", b"I\0\0\0\5"),
    ("Long", b"l\0\0\0\0\0\0\0\5"),
    ("Short", b"s\0\5"),
    ("moment after 2106", b"T\0\0\0\1\0\0\0\0"),
    ("Byte", b"b\5"),
    ("unsigned byte", b"B\5"),
    ("Float", b"f" + struct.pack(">f", 0.1)),
    ("Double", b"d" + struct.pack(">d", 0.1)),
    ("BigDecimal", b"D\2\0\0\0\5"),
    ("Date", b"T\0\0\0\0\x65\0\0\0"),
    ("byte[]", b"x\0\0\0\1\xff"),
    ("text", b"S\0\0\0\1a"),
    ("null", b"V"),
    ("Boolean", b"t\1"),
    ("List of Integer", b"A\0\0\0\5I\0\0\0\5"),
    ("Map of Integer", b"F\0\0\0\7\1nI\0\0\0\5"),
]


@pytest.mark.parametrize("application", [None, "shop"], ids=["by hand", "by pamqp"])
@pytest.mark.parametrize("value", [value for _, value in WRITTEN], ids=[name for name, _ in WRITTEN])
def test_header_of_a_client_has_the_same_type_in_every_copy(value: bytes, application: str | None) -> None:
    sent = Properties(message_id="m-1", app_id=application, headers={"typed": 0}, written={"typed": value})
    content = bytes(12) + encode_properties(sent)
    assert b"\5typed" + value in content
    for _ in range(2):
        copy = from_properties("orders", decode_properties(content), b"", now_ms=0)
        content = bytes(12) + encode_properties(CopyProperties(copy))
        assert b"\5typed" + value in content


@examples(100)
@given(HEADERS)
def test_deaths_are_those_that_pamqp_decodes(headers: dict[str, Any]) -> None:
    content = encoded(Basic.Properties(headers=headers))
    found, expected = decode_properties(content).headers, decoded(content).headers

    assert own.latest_death(found) == latest_death(expected)
    assert repr(own.deaths(found)) == repr(deaths(expected))


def test_the_latest_death_is_read_without_the_others() -> None:
    died: list[Any] = [{"count": 1, "reason": "rejected", "queue": "ready.orders"}, {"queue": "delay.100d"}]
    content = encoded(Basic.Properties(headers={"x-death": died}))

    assert own.latest_death(decode_properties(content.replace(b"delay.100d", b"\xff" * 10)).headers) == (
        "ready.orders",
        "rejected",
    )


MICROSECONDS = struct.pack(">Q", 1_753_000_000_000_000)


def test_malformed_deaths_are_an_error_only_when_they_are_read() -> None:
    moment = datetime(2026, 1, 31, tzinfo=UTC)
    good = encoded(Basic.Properties(headers={"x-death": [{"a": moment}], "kept": 1}, message_id="m-1"))
    properties = decode_properties(good.replace(struct.pack(">Q", int(moment.timestamp())), MICROSECONDS))

    assert (properties.message_id, (properties.headers or {})["kept"]) == ("m-1", 1)
    with pytest.raises(ValueError, match="out of range"):
        own.latest_death(properties.headers)
    with pytest.raises(ValueError, match="out of range"):
        own.deaths(properties.headers)


def test_malformed_properties_are_absent_with_the_reason() -> None:
    content = encoded(Basic.Properties())[:12] + struct.pack(">H", 0x0040) + MICROSECONDS

    assert UNREADABLE in (decode_properties(content).headers or {})


@pytest.mark.parametrize(
    "value", [0.1, 1e300, -2.5e-300, b"\xff\xfe", [b"\xff", {"deep": 1e300}], "text", 2**62, "n" * 200]
)
def test_header_is_written_as_it_was_read(value: object) -> None:
    name = "n" * 200 if value == "n" * 200 else "kept"
    content = bytes(12) + encode_properties(Properties(headers={name: value}, message_id="m-1"))

    found = decode_properties(content)

    assert (found.headers, found.message_id) == ({name: value}, "m-1")


@pytest.mark.parametrize(("levels", "readable"), [(5, True), (60, False)])
def test_tables_nested_too_deep_are_unreadable(levels: int, readable: bool) -> None:
    value: Any = "core"
    for _ in range(levels):
        value = {"t": value}
    found = decode_properties(encoded(Basic.Properties(headers={"deep": value}, message_id="m-1")))

    assert (found.message_id == "m-1", UNREADABLE in (found.headers or {})) == (readable, not readable)
