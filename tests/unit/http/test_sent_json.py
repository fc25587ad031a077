"""Tests that a send's JSON is read as any JSON is, and that its body keeps every digit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.http import exact_json
from bridge.http.v1.sending import sent_json

LONG = b" " * 1_024  # makes a document long enough; behind it, so that the body's bytes are unchanged


@pytest.mark.parametrize(
    ("document", "body"),
    [
        (b'{"body":{"a":[1,-2.5,"x",true,null]}}', b'{"a":[1,-2.5,"x",true,null]}'),
        (b'{"delay":"15m","body":"x","id":"o-1"}', b'"x"'),
        # Numbers at the edge of 64 bits, and behind it.
        (b'{"body":1234567890123456789}', b"1234567890123456789"),
        (b'{"body":18446744073709551615}', b"18446744073709551615"),
        (b'{"body":18446744073709551616}', b"18446744073709551616"),
        (b'{"body":[0.12345678901234567890123]}', b"[0.12345678901234567890123]"),
        (b'{"body":1e400}', b"1e400"),
        (b'{"body":1e5}', b"100000.0"),
        (b'{"body":1.5e300}', b"1.5e300"),
        (b'{"body":-0}', b"0"),
        (b'{"body":-0.0}', b"-0.0"),
        # What is written is only the beginning of the number.
        (b'{"body":1.00000000000000000001}', b"1.00000000000000000001"),
        (b'{"body":1.0,"x":1.00000000000000000001}', b"1.0"),
        # Several bodies: the last one counts.
        (b'{"body":1.0,"body":1.00000000000000000000}', b"1.00000000000000000000"),
        (b'{"body":1.00000000000000000000,"body":1.0}', b"1.0"),
        (b'{"body":[1],"body":[1]}', b"[1]"),
        (b'{"body":{"a":1,"a":2}}', b'{"a":2}'),
        # Something else that looks like the body.
        (b'{"x":{"body":[1.0]},"body":[1.00000000000000000000]}', b"[1.00000000000000000000]"),
        (b'{"x\\"body":1.0,"body":1.00000000000000000000}', b"1.00000000000000000000"),
        (b'{"x":"\\"body\\":1.0,","body":1.00000000000000000000}', b"1.00000000000000000000"),
        (b'{"\\u0062ody":1.00000000000000000000,"x":{"body":1.0}}', b"1.00000000000000000000"),
        (b'{"body":{"body":1.0,"x":1.00000000000000000000}}', b'{"body":1.0,"x":1.00000000000000000000}'),
        (b'{"body":{"body":1.0}}', b'{"body":1.0}'),
        # Bodies that are not compact.
        (b'{ "body" : [ 1 , 2.50 ] }', b"[1,2.5]"),
        (b'{"body": {"a": 1.00000000000000000000}}', b'{"a":1.00000000000000000000}'),
        (b'{"body":[1, 2]}', b"[1,2]"),
        (b'{"body":1 }', b"1"),
        (b'{"body":"\\u0041\\/"}', b'"A/"'),
        (b'{"body":"\\ud83d\\ude00"}', '"\U0001f600"'.encode()),
        ('{"body":"\U0001f600 \u2028 \x7f"}'.encode(), '"\U0001f600 \u2028 \x7f"'.encode()),
        (b'{"body":"\\u0000\\n"}', b'"\\u0000\\n"'),
    ],
)
def test_a_body_is_compact_and_keeps_every_digit(document: bytes, body: bytes) -> None:
    for end in (b"", LONG):
        message, known = sent_json.loads(document + end)

        assert exact_json.dumps(message["body"]) == body
        assert known in (body, None)
        assert exact_json.dumps(message) == exact_json.dumps(exact_json.loads(document))


@pytest.mark.parametrize(
    "document",
    [
        b'{"body":{"a":1.5},"delay":900000}',
        b'{"delay":"15m","body":[1234567890123456789]}',
        b'{"body":"' + b"0" * 1_024 + b'"}',
        b'{"body": [1, 2.50]}',
    ],
)
def test_a_body_without_longer_numbers_is_known(document: bytes) -> None:
    message, body = sent_json.loads(document + LONG)

    assert body == exact_json.dumps(message["body"])


@pytest.mark.parametrize(
    "document",
    [b"null", b"[1.00000000000000000000]", b'"body"', b"{}", b'{"x":1}', b'{"body":' + b"[" * 255 + b"]" * 255 + b"}"],
)
def test_a_document_without_a_body_to_write_is_only_read(document: bytes) -> None:
    assert sent_json.loads(document + LONG) == (exact_json.loads(document), None)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b'{"body":1',
        b'{"body":NaN}',
        b'{"body":01}',
        b'{"body":1,}',
        b'{"body":"\xff"}',
        b'{"body":"\\ud800"}',
        b'{"body":["\\ud800",12345678901234567890]}',
        b'{"body":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
        b'{"body":1}{"body":1}',
    ],
)
def test_invalid_json_is_refused_with_the_same_words(document: bytes) -> None:
    with pytest.raises(ValueError) as usual:
        exact_json.loads(document + LONG)
    with pytest.raises(ValueError) as refused:
        sent_json.loads(document + LONG)

    assert str(refused.value) == str(usual.value)


_VALUES = st.sampled_from(
    ["1", "1.0", "1.00000000000000000000", "1e400", "1e5", "-0", '"x"', '"\\"body\\":1.0,"', '"\\u0041"', "[1.0]"]
)
_NAMES = st.sampled_from(['"body"', '"x"', '"x\\"body"', '"\\u0062ody"'])
_GAPS = st.sampled_from(["", "", " "])


@st.composite
def _objects(draw: st.DrawFn, depth: int = 2) -> str:
    values = _VALUES | _objects(depth - 1) if depth else _VALUES
    members = draw(st.lists(st.tuples(_NAMES, _GAPS, _GAPS, values, _GAPS), max_size=4))
    return "{" + ",".join(f"{name}{one}:{two}{value}{three}" for name, one, two, value, three in members) + "}"


@given(_objects())
def test_any_send_is_read_as_any_json_is(text: str) -> None:
    document = text.encode() + LONG
    usual = exact_json.loads(document)
    message, body = sent_json.loads(document)

    assert exact_json.dumps(message) == exact_json.dumps(usual)
    assert body is None or body == exact_json.dumps(usual["body"])
