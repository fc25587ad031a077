"""Tests that JSON is bounded before it is read."""

from __future__ import annotations

import json

import pytest
from msgspec import UNSET, Raw

from bridge.http.errors import BrokenJSON, TooManyValues
from bridge.http.json_bounds import LARGE_BYTES, weigh
from bridge.http.reading import read
from bridge.http.v1.contract.requests import SendRequest
from bridge.http.v1.sending.batches import messages_of
from bridge.model.errors import InvalidRequest

MIB = 1024 * 1024


def repeated(part: bytes, size_bytes: int) -> bytes:
    return b"[" + part * (size_bytes // len(part)) + b"0]"


@pytest.mark.parametrize("part", [b"{},", b"[],", b'{"":0},', b'"":0,', b"0,", b"[0],", b'"a",'])
def test_a_document_of_a_mebibyte_is_never_too_much(part: bytes) -> None:
    document = b" " * 64 + repeated(part, LARGE_BYTES)
    assert weigh(document) == document


@pytest.mark.parametrize("part", [b"{},", b"[],", b'{"":0},', b'"":0,', b"0,"])
def test_a_document_of_too_many_values_is_refused_unread(part: bytes) -> None:
    with pytest.raises(TooManyValues, match="more than 50331648 bytes"):
        weigh(repeated(part, 6 * MIB))


def test_what_texts_contain_is_not_counted() -> None:
    document = json.dumps(['[{:,\\"' * MIB]).encode()
    assert weigh(document) == document


def test_the_messages_of_a_large_batch_are_read_one_at_a_time() -> None:
    messages = [{"body": {"a": [1, ']}{[,\\" '], "n": number}} for number in range(1_000)]
    document = json.dumps({"messages": messages}, indent=300).encode()
    assert len(document) > LARGE_BYTES
    assert [json.loads(one) for one in messages_of(document)] == messages


@pytest.mark.parametrize(
    "rest", [b"]", b"", b"}", b"]}}", b"],}", b'],"messages":[]}', b",]}", b'],"other":1}', b']}"', b"1 2]}"]
)
def test_a_large_batch_of_another_form_is_refused(rest: bytes) -> None:
    document = b'{"messages":[' + b" " * LARGE_BYTES + b"1" + rest
    with pytest.raises((BrokenJSON, InvalidRequest)):
        [read(SendRequest, message) for message in messages_of(document)]


def test_a_large_batch_of_too_many_messages_is_refused_unread() -> None:
    with pytest.raises(InvalidRequest, match="at most 1000 entries"):
        messages_of(b'{"messages":[' + b"{}," * MIB + b"{}]}")


@pytest.mark.parametrize("document", [repeated(b"0,", 2 * MIB), b'{"headers":' + repeated(b"0,", 2 * MIB) + b"}"])
def test_a_message_of_too_many_values_is_refused_alone(document: bytes) -> None:
    first, second = messages_of(b'{"messages":[{"body":7},' + document + b"]}")
    assert read(SendRequest, first).body is not UNSET
    with pytest.raises(TooManyValues):
        read(SendRequest, second)


def test_the_values_of_a_body_are_not_counted() -> None:
    body = repeated(b"0,", 6 * MIB)
    assert read(SendRequest, b'{"body":' + body + b"}").body == Raw(body)


def test_a_wrong_field_beside_a_large_body_is_named() -> None:
    body = repeated(b"0,", 6 * MIB)
    with pytest.raises(InvalidRequest, match=r"^delay: "):
        read(SendRequest, b'{"delay":"x","body":' + body + b"}")
