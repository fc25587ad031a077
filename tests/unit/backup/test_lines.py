"""Tests that the lines of a backup are read as they were written, and that wrong lines are named."""

from __future__ import annotations

import orjson
import pytest

from bridge.backup.lines import (
    BadBackup,
    Kind,
    Topic,
    check_head,
    message_line,
    read,
    read_field,
    read_message,
    read_topic,
)
from bridge.model.message import Envelope, Message, State, Target
from bridge.model.values import Policy, Release
from bridge.store.kept.kept_fields import Field
from tests.records import record

RECORD = record(
    topic="shop/orders",
    id="a-1",
    state=State.LEASED,
    epoch=3,
    created_ms=1_000,
    due_ms=2_000,
    attempts=1,
    max_retry=5,
    arrives_ms=2_000,
    last_ms=9_000,
    lease_until_ms=8_000,
    reason="busy",
    labels="a=1",
)
ENVELOPE = Envelope(
    content_type="text/plain", headers={"n": 1, "of": ["a"]}, properties={"priority": 4}, body=b"\x00\xff"
)


@pytest.mark.parametrize(
    "envelope", [ENVELOPE, Envelope(body=None), Envelope(body=b""), Envelope(target=Target("shop", "new"))]
)
def test_message_is_read_as_it_was_written(envelope: Envelope) -> None:
    message = Message(record=RECORD, envelope=envelope)
    assert read_message(read(message_line(message), 1), 1) == message


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "line 4 is not JSON"),
        (b'{"kind":"mess', "line 4 is not JSON"),
        (b"[]", "line 4 has no kind of backup, topic, field, schedule, message, end"),
        (b'{"kind":"letter"}', "line 4 has no kind of"),
    ],
)
def test_line_of_no_kind_is_refused(line: bytes, reason: str) -> None:
    with pytest.raises(BadBackup, match=reason):
        read(line, 4)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"topic": "a b"}, "no valid topic and id"),
        ({"id": "a/b"}, "no valid topic and id"),
        ({"id": 7}, "line 4 is no message: TypeError"),
        ({"state": "gone"}, "line 4 is no message: KeyError 'gone'"),
        ({"due_ms": "soon"}, "line 4 is no message: ValueError"),
        ({"labels": {"A": "1"}}, "no valid labels"),
        ({"labels": 7}, "line 4 is no message: TypeError"),
        ({"body_base64": "a"}, "line 4 is no message: Error"),
    ],
)
def test_wrong_member_of_a_message_is_refused(change: dict[str, object], reason: str) -> None:
    line = {**orjson.loads(message_line(Message(record=RECORD, envelope=ENVELOPE))), **change}
    with pytest.raises(BadBackup, match=reason):
        read_message(line, 4)


def test_topic_is_read_with_its_policy_or_none() -> None:
    assert read_topic({"topic": "orders", "policy": None}, 2) == Topic("orders", None)
    assert read_topic({"topic": "orders", "policy": {"max_retry": 7, "release": "direct"}}, 2) == Topic(
        "orders", Policy(max_retry=7, release=Release.DIRECT)
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ({"topic": "a b", "policy": None}, "line 4 has no valid topic: 'a b'"),
        ({"topic": 7, "policy": None}, "line 4 is no topic: TypeError"),
        ({"topic": "orders"}, "line 4 is no topic: KeyError 'policy'"),
        ({"topic": "orders", "policy": 7}, "line 4 is no topic: TypeError"),
        ({"topic": "orders", "policy": {"release": "soon"}}, "line 4 is no topic: ValueError"),
    ],
)
def test_wrong_member_of_a_topic_is_refused(line: dict[str, object], reason: str) -> None:
    with pytest.raises(BadBackup, match=reason):
        read_topic(line, 4)


@pytest.mark.parametrize("of", ["subscriptions", "tokens", "names", "lmstfy/limits", "lmstfy/tokens/main/shop"])
def test_field_of_a_hash_that_a_backup_reads_is_taken(of: str) -> None:
    assert read_field({"kind": "field", "of": of, "name": "a", "value": "1"}, 2) == Field(of, "a", "1")


@pytest.mark.parametrize(
    "change",
    [
        {"of": "operations"},
        {"of": "lmstfy/tokens/main"},
        {"of": "lmstfy/tokens//shop"},
        {"of": ""},
        {"of": 7},
        {"name": "version"},
        {"value": None},
    ],
)
def test_field_that_no_backup_has_is_refused(change: dict[str, object]) -> None:
    with pytest.raises(BadBackup, match="line 4 has a field of"):
        read_field({"of": "tokens", "name": "a", "value": "1", **change}, 4)


def test_former_format_is_read() -> None:
    check_head({"kind": Kind.HEAD, "format": 1})


def test_other_format_is_refused() -> None:
    with pytest.raises(BadBackup, match="format 3, and this version reads 1 to 2"):
        check_head({"kind": Kind.HEAD, "format": 3})
