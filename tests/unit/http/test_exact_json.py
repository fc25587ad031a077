"""Tests that JSON is read strictly, and that a value which passes through keeps every digit."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import Raw

from bridge.http import exact_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@pytest.mark.parametrize(
    ("document", "written"),
    [
        (b'{ "a" : [ 1 , 2.50 ] }', b'{"a":[1,2.50]}'),
        (b"123456789012345678901234567890", b"123456789012345678901234567890"),
        (b"[1e400, 1E+5,\t-0]", b"[1e400,1E+5,-0]"),
        (b'"\\u00e9 a b"', b'"\\u00e9 a b"'),
    ],
)
def test_a_value_keeps_every_digit(document: bytes, written: bytes) -> None:
    assert exact_json.compact(Raw(document)) == written


@given(_VALUES)
def test_a_compact_value_has_the_same_value(value: object) -> None:
    assert json.loads(exact_json.compact(json.dumps(value, indent=2).encode())) == value


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[1,]",
        b"01",
        b"NaN",
        b"-",
        b'"\n"',
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b'{"a"}',
        b"{} {}",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_other_text_is_no_json(document: bytes) -> None:
    assert not exact_json.is_json(document)


@given(st.binary(max_size=40) | st.text(alphabet='{}[],:"\\u0019eE+-. tfn\u00e9').map(str.encode))
@example(b"1e400")
def test_json_is_what_another_parser_takes(document: bytes) -> None:
    try:
        json.loads(document.decode(), parse_constant=_refused)
    except ValueError:
        assert not exact_json.is_json(document)
    else:
        assert exact_json.is_json(document)


def _refused(constant: str) -> None:
    raise ValueError(constant)
