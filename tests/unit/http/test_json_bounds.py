"""Tests that JSON is bounded before it is read."""

from __future__ import annotations

import json

import pytest

from bridge.http import exact_json
from bridge.http.errors import BrokenJSON, TooManyValues
from bridge.http.json_bounds import LARGE_BYTES, weigh
from bridge.http.v1.sending import batch_json
from bridge.http.v1.sending.batch_json import Unread
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
    read = batch_json.loads(document)["messages"]
    assert all(isinstance(one, Unread) for one in read)
    assert [one.value() for one in read] == messages


@pytest.mark.parametrize(
    "rest", [b"]", b"", b"}", b"]}}", b"],}", b'],"messages":[]}', b",]}", b'],"other":1}', b']}"', b"1 2]}"]
)
def test_a_large_batch_of_another_form_is_read_as_a_whole(rest: bytes) -> None:
    document = b'{"messages":[' + b" " * LARGE_BYTES + b"1" + rest
    try:
        expected = exact_json.loads(document)
    except ValueError:
        with pytest.raises((ValueError, BrokenJSON)):
            [one.value() for one in batch_json.loads(document)["messages"]]
    else:
        assert batch_json.loads(document) == expected


def test_a_large_batch_of_too_many_messages_is_refused_unread() -> None:
    with pytest.raises(InvalidRequest, match="at most 1000 entries"):
        batch_json.loads(b'{"messages":[' + b"{}," * MIB + b"{}]}")


def test_a_message_of_too_many_values_is_refused_alone() -> None:
    first, second = batch_json.loads(b'{"messages":[7,' + repeated(b"0,", 2 * MIB) + b"]}")["messages"]
    assert first.value() == 7
    with pytest.raises(TooManyValues):
        second.value()
