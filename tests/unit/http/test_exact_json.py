from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.http import exact_json


@pytest.mark.parametrize(
    "document",
    [
        b"null",
        b'{"a":[1,-2.5,"x",true,null]}',
        b"18446744073709551616",
        b"-123456789012345678901234567890",
        b"0.12345678901234567890123",
        b"1e400",
        b"-1E-400",
        b'[1e400,{"n":12345678901234567890123}]',
        b"9007199254740993",
        b"9223372036854775808",
    ],
)
def test_numbers_keep_their_digits(document: bytes) -> None:
    assert exact_json.dumps(exact_json.loads(document)) == document


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b'{"a":1,}',
        b"'a'",
        b'"\xff"',
        b"\xef\xbb\xbf{}",
        b"01",
        b'"\\ud800"',
        b"[NaN, 12345678901234567890]",
        b'["\xff", 12345678901234567890]',
        b"9" * 5000,
        b"[" * 5000 + b"]" * 5000,
        b'["\\ud800", 12345678901234567890]',
        b'{"\\uDFFF": 12345678901234567890}',
    ],
)
def test_invalid_json_is_refused(document: bytes) -> None:
    with pytest.raises(ValueError):
        exact_json.loads(document)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(_VALUES)
def test_any_value_survives_a_round_trip(value: Any) -> None:
    document = json.dumps(value).encode()
    assert json.loads(exact_json.dumps(exact_json.loads(document))) == value


def test_a_number_is_read_the_same_next_to_a_long_number() -> None:
    assert [type(number) for number in exact_json.loads(b"[3.0, 1, 1e400]")[:2]] == [float, int]
