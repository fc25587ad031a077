"""Tests the headers that a receiver gets, and that receivers can verify the signature."""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from bridge.loops.callbacks.request import Destination, headers_of
from bridge.model.addresses import parse_url
from bridge.model.message import Envelope, Message
from bridge.model.webhooks import key_of, webhook_id
from tests.wires.camellia_service import message

OLD, NEW = ("whsec_" + base64.b64encode(bytes([byte]) * 24).decode() for byte in (1, 250))
URL = parse_url("https://hooks.example/orders?x=y")


def headers(sent: Message, *secrets: str, now_s: int = 1_700_000_000) -> dict[str, str]:
    destination = Destination(url=URL, keys=[key_of(secret) for secret in secrets])
    return dict(headers_of(sent, destination, now_s))


def of(message_id: str = "o-1", **envelope: Any) -> Message:
    return message(message_id, envelope=Envelope(**{"body": b'{"order": 1.50}', **envelope}))


@pytest.mark.parametrize("secret", [OLD, NEW])
def test_a_receiver_verifies_the_signature_with_any_of_the_secrets(secret: str) -> None:
    sent = headers(of(), OLD, NEW, now_s=int(time.time()))
    assert Webhook(secret).verify(b'{"order": 1.50}', sent) == {"order": 1.5}
    with pytest.raises(WebhookVerificationError):
        Webhook(secret).verify(b'{"order": 1.5}', sent)


def test_without_a_secret_there_is_no_signature() -> None:
    assert "webhook-signature" not in headers(of())


def test_all_attempts_of_a_message_have_the_same_webhook_id() -> None:
    first = of()
    second = replace(first, record=replace(first.record, attempts=2, epoch=9, nonce=3))
    assert headers(first)["webhook-id"] == headers(second)["webhook-id"]
    assert "." not in headers(first)["webhook-id"]
    assert len({webhook_id(*names) for names in (("a", "b", 1), ("a", "b", 2), ("b", "b", 1), ("a", "a", 1))}) == 4


def test_headers_name_the_message_and_the_attempt() -> None:
    sent = of(' o "1"%')
    names = headers(replace(sent, record=replace(sent.record, attempts=2)))
    assert names == {
        **names,
        "Host": "hooks.example",
        "Content-Type": "application/json",
        "Content-Length": "15",
        "x-delay-topic": "orders",
        "x-delay-id": "%20o%20%221%22%25",
        "x-delay-attempt": "2",
        "x-delay-due": str(sent.record.due_ms),
        "x-delay-created": str(sent.record.created_ms),
    }
    assert "x-delay-headers" not in names


def test_message_headers_become_one_line_of_ascii() -> None:
    given = {"tenant": "t-7\r\nx: y", "größe": "ü😀", "n": 5, "b": True, "f": 1.5, "raw": b"\xff", "table": {"a": [1]}}
    line = headers(of(headers=given))["x-delay-headers"]
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == {**given, "raw": "\ufffd"}


@pytest.mark.parametrize(
    ("content_type", "sent"),
    [
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("text/plain\r\nx: y", "application/octet-stream"),
        ("", "application/octet-stream"),
        (" text/plain", "application/octet-stream"),
        ("text/ünicode", "application/octet-stream"),
    ],
)
def test_a_content_type_that_http_cannot_carry_becomes_octet_stream(content_type: str, sent: str) -> None:
    assert headers(of(content_type=content_type))["Content-Type"] == sent


@pytest.mark.parametrize(
    "secret",
    ["", "whsec_", "MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1u", "whsec_MDEy", f"{OLD}\n", f"{OLD}=", "whsec_" + "A" * 92,
     "whsec_" + "-" * 32, "whsec_" + base64.b64encode(bytes(23)).decode(),
     "whsec_" + base64.b64encode(bytes(65)).decode()],
)  # fmt: skip
def test_a_malformed_secret_is_refused_and_is_not_in_the_error(secret: str) -> None:
    with pytest.raises(ValueError, match="must be whsec_ and 24 to 64 bytes") as refused:
        key_of(secret)
    assert len(secret) < 10 or secret not in str(refused.value)


@pytest.mark.parametrize("size", range(24, 65))
def test_a_secret_of_24_to_64_bytes_is_accepted(size: int) -> None:
    assert key_of("whsec_" + base64.b64encode(bytes(size)).decode()) == bytes(size)
