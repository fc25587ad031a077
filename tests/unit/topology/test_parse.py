"""Tests parsing of routing keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology.names import Names
from topology.wheel import MAX_DELAY_MS, WheelKey, fault_of_key, parse_key, route

parts = st.from_regex(r"[A-Za-z0-9_.-]{1,100}", fullmatch=True)
topics = parts | st.tuples(parts, parts).map("/".join)
kinds = st.none() | st.from_regex(r"[a-z]{1,20}(-bundle)?", fullmatch=True)
delays_ms = st.integers(0, MAX_DELAY_MS // 100).map(lambda tenths: tenths * 100)


@given(delay_ms=delays_ms, topic=topics, kind=kinds)
def test_key_written_by_route_is_parsed_back(delay_ms: int, topic: str, kind: str | None) -> None:
    key = route(Names(), delay_ms, topic, kind).routing_key

    assert parse_key(key) == WheelKey(delay_ms=delay_ms, kind=kind, topic=topic)
    assert len(key.encode()) <= 255


@pytest.mark.parametrize(
    ("key", "delay_ms", "kind", "topic"),
    [
        ("0.0.0.0.30.5.2.orders", 1_805_200, None, "orders"),
        ("9.9.9.0.0.0.0.orders", 86_313_600_000, None, "orders"),
        ("0.0.0.0.0.0.0.eu.west.orders", 0, None, "eu.west.orders"),
        ("0.0.0.0.0.0.1.shop.eu/orders.v2", 100, None, "shop.eu/orders.v2"),
        ("0.0.0.0.0.1.0.!lease.eu.orders", 1_000, "lease", "eu.orders"),
        ("0.0.0.0.0.1.0.0.0.0.0.0.2.0.orders", 1_000, None, "0.0.0.0.0.2.0.orders"),
    ],
)
def test_topic_is_everything_after_the_digits(key: str, delay_ms: int, kind: str | None, topic: str) -> None:
    assert parse_key(key) == WheelKey(delay_ms=delay_ms, kind=kind, topic=topic)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "orders",
        "0.0.0.0.30.5.2",
        "0.0.0.0.30.5.2.",
        "0.0.0.0.30.5.orders",
        "10.0.0.0.0.0.0.orders",
        "0.0.0.24.0.0.0.orders",
        "0.0.0.0.60.0.0.orders",
        "0.0.0.0.0.60.0.orders",
        "0.0.0.0.0.0.10.orders",
        "0.0.0.0.0.05.0.orders",
        "0.0.0.0.0.+5.0.orders",
        "0.0.0.0.0.-5.0.orders",
        "0.0.0.0.0.٥.0.orders",
        "0.0.0.0.0..0.orders",
        "9.9.9.0.0.0.1.orders",
        "9.9.9.23.59.59.9.orders",
        "0.0.0.0.0.5.0.two words",
        "0.0.0.0.0.5.0.a/b/c",
        "0.0.0.0.0.5.0./orders",
        "0.0.0.0.0.5.0.#",
        "0.0.0.0.0.5.0.orders\n",
        "0.0.0.0.0.5.0.!orders",
        "0.0.0.0.0.5.0.!.orders",
        "0.0.0.0.0.5.0.!lease.",
        "0.0.0.0.0.5.0.!Lease.orders",
        f"0.0.0.0.0.5.0.{'t' * 101}",
    ],
)
def test_malformed_key_is_not_parsed(key: str) -> None:
    assert parse_key(key) is None


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("5.orders", "it has 2 of 8 parts"),
        ("0.0.0.0.30.5.2", "it has 7 of 8 parts"),
        ("10.0.0.0.0.0.0.orders", "hundreds-of-days is '10', and must be 0 to 9 without a leading zero"),
        ("0.0.0.25.0.0.0.orders", "hours is '25', and must be 0 to 23 without a leading zero"),
        ("0.0.0.0.60.61.0.orders", "minutes is '60', and must be 0 to 59 without a leading zero"),
        ("0.0.0.0.0.05.0.orders", "seconds is '05', and must be 0 to 59 without a leading zero"),
        ("0.0.0.0.0.0.x.orders", "tenths is 'x', and must be 0 to 9 without a leading zero"),
        ("9.9.9.0.0.0.1.orders", "the delay is over 999 days"),
        ("0.0.0.0.0.5.0.two words", "'two words' is not a topic"),
        ("0.0.0.0.0.5.0.!lease.", "'!lease.' is not a topic"),
    ],
)
def test_fault_of_a_malformed_key_names_the_digit_its_value_and_its_limit(key: str, fault: str) -> None:
    assert parse_key(key) is None
    assert fault_of_key(key) == fault


@given(st.text())
def test_parser_raises_no_error_for_any_text(key: str) -> None:
    parse_key(key)
    parse_key(f"0.0.0.0.0.5.0.{key}")
    fault_of_key(key)
