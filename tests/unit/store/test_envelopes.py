"""Tests packing and unpacking of envelopes."""

from random import Random

import orjson
import pytest

from bridge.model.message import Envelope, Target
from bridge.store.messages.envelopes import digest_of_body, pack, unpack

LIMIT = 16


@pytest.mark.parametrize(
    "envelope",
    [
        Envelope(body=b"{}"),
        Envelope(body=b"x" * LIMIT),
        Envelope(content_type="text/plain; charset=utf-8", body=b"a\nb\n"),
        Envelope(headers={"trace": "1", "n": 2, "deep": {"a": [1, None]}}, body=b"\x00\xff"),
        Envelope(properties={"priority": 3, "app_id": "shop"}, body=b"\n"),
        Envelope(content_type="application/octet-stream"),
        Envelope(headers={"täg": "ü"}),
        Envelope(target=Target("shop", "")),
        Envelope(target=Target("shop", "new"), headers={"a": 1}, body=b"{}"),
    ],
)
def test_envelope_round_trips(envelope: Envelope) -> None:
    assert unpack(pack(envelope, LIMIT)) == envelope


def test_empty_body_is_kept_as_a_body() -> None:
    assert unpack(pack(Envelope(content_type="text/plain", body=b""), LIMIT)).body == b""
    assert unpack(pack(Envelope(body=b""), LIMIT)).body == b""


@pytest.mark.parametrize(("body", "limit"), [(b"x" * (LIMIT + 1), LIMIT), (b"x", 0)])
def test_body_over_the_limit_is_dropped_and_the_rest_kept(body: bytes, limit: int) -> None:
    packed = pack(Envelope(content_type="text/plain", headers={"a": 1}, body=body), limit)

    assert unpack(packed) == Envelope(content_type="text/plain", headers={"a": 1}, body=None)


def test_envelope_of_defaults_packs_to_nothing() -> None:
    assert pack(Envelope(body=b"x" * (LIMIT + 1)), LIMIT) == b""
    assert pack(Envelope(), LIMIT) == b""


@pytest.mark.parametrize("items", [40, 400])
@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_long_json_is_compressed_and_round_trips(items: int, content_type: str) -> None:
    body = orjson.dumps([{"sku": f"SKU-{number}", "price_cents": number * 7} for number in range(items)])
    envelope = Envelope(content_type=content_type, headers={"a": "b"}, body=body)
    packed = pack(envelope, len(body))

    assert len(packed) < len(body) / 2
    assert unpack(packed) == envelope


@pytest.mark.parametrize("size", [1_000, 1_025, 4_000, 16_000])
def test_incompressible_body_is_stored_as_it_is(size: int) -> None:
    envelope = Envelope(body=Random(1).randbytes(size))

    assert pack(envelope, size) == b"\n" + (envelope.body or b"")
    assert unpack(pack(envelope, size)) == envelope


@pytest.mark.parametrize("body", [b"z", b"z" * 2_000, b"\n", b""])
def test_body_that_looks_compressed_round_trips(body: bytes) -> None:
    assert unpack(pack(Envelope(body=body), 4_000)).body == body


def test_very_long_body_is_not_compressed() -> None:
    body = b"[]" * 20_000

    assert pack(Envelope(body=body), len(body)) == b"\n" + body


def test_header_values_without_a_form_in_json_become_text() -> None:
    unpacked = unpack(pack(Envelope(headers={"raw": b"\xffa", "array": bytearray(b"b"), "big": 1 + 2j}), LIMIT))

    assert unpacked.headers == {"raw": "\ufffda", "array": "b", "big": "(1+2j)"}


@pytest.mark.parametrize("headers", [{}, {"a": 1}])
def test_the_digest_of_a_body_that_is_left_out_is_kept_where_it_is_asked_for(headers: dict[str, int]) -> None:
    envelope = Envelope(headers=headers, body=b"x" * (LIMIT + 1))
    left_out = unpack(pack(envelope, LIMIT, digested=True))

    assert (left_out.body, left_out.body_digest) == (None, digest_of_body(b"x" * (LIMIT + 1)))
    assert (left_out.headers, left_out.properties) == (headers, {})
    assert len(left_out.body_digest) == 12
    kept = Envelope(headers=headers, body=b"x")
    assert unpack(pack(kept, LIMIT, digested=True)) == kept


def test_a_bridge_that_knows_no_digest_reads_the_line_with_one() -> None:
    line = pack(Envelope(body=b"x" * (LIMIT + 1)), LIMIT, digested=True)
    content_type, headers, properties = orjson.loads(line)

    assert (content_type, headers, list(properties)) == ("application/json", {}, ["~"])
    assert len(line) <= 45
