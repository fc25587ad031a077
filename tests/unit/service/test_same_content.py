"""Tests whether a repeated send has the content of the first one."""

from __future__ import annotations

import pytest

from bridge.model.message import Envelope, Target
from bridge.service.sending.same_content import other_field
from bridge.store.messages.envelopes import digest_of_body


@pytest.mark.parametrize(
    ("kept", "given", "other"),
    [
        (b'{"a":1}', b'{"a":1}', None),
        (b'{"a":1,"b":2}', b'{"b":2,"a":1}', None),
        (b"1.50", b"1.5", None),
        (b"15e-1", b"1.5", None),
        (b'"\\u00e9"', '"é"'.encode(), None),
        (b"1.50", b"1.51", "body"),
        (b"12345678901234567890123", b"12345678901234567890124", "body"),
        (b"1e400", b"1e401", "body"),
        (b"1e400", b"10e399", None),
        (b"1e99999999999999999999", b"1", "body"),
        (b"[1]", b"[true]", "body"),
        (b"[0]", b"[false]", "body"),
        (b'"1"', b"1", "body"),
        (b"text", b"other text", "body"),
        (b"[" * 100_000, b"[" * 99_999, "body"),
    ],
)
def test_bodies_of_one_value_are_equal(kept: bytes, given: bytes, other: str | None) -> None:
    assert other_field(Envelope(body=kept), Envelope(body=given)) == other


def test_texts_are_compared_by_their_bytes() -> None:
    kept, given = (Envelope(body=body, content_type="text/plain") for body in (b"1.50", b"1.5"))
    assert other_field(kept, given) == "body"


@pytest.mark.parametrize(
    ("kept", "other"),
    [
        (None, None),
        (Envelope(), None),
        (Envelope(body_digest=digest_of_body(b"1")), None),
        (Envelope(body_digest=digest_of_body(b"2")), "body"),
        (Envelope(body=b"1", content_type="text/plain"), "content_type"),
        (Envelope(body=b"1", target=Target("an-exchange", "a-key")), "to"),
    ],
)
def test_content_that_redis_knows_is_compared(kept: Envelope | None, other: str | None) -> None:
    assert other_field(kept, Envelope(body=b"1")) == other
