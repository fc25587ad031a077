"""Lists each field's largest or smallest value, the value one beyond it, and the limit that the refusal names."""

from __future__ import annotations

import json
from typing import Any

from tests.fuzz.requests import Sent

Limit = tuple[str, str, str, str, str, object]  # method, path, field, JSON at the limit, JSON beyond, the limit named

TOPIC = "/v1/topics/limits"
_SEND, _PULL, _DEAD = f"{TOPIC}/messages", f"{TOPIC}/pull", f"{TOPIC}/dead/replay"
_DAYS_MS, _HALF_DAY_MS = 999 * 86_400_000, 43_200_000
_VALID: dict[str, dict[str, Any]] = {
    _SEND: {"body": 1, "delay": "1d"},
    "/v1/pull": {"topics": ["limits"]},
}
_ID_FORM = '1-200 printable ASCII characters without "/"'


def _text(length: int) -> str:
    return json.dumps("x" * length)


def _media_type(length: int) -> str:
    return json.dumps(f"a/{'b' * (length - 7)}+json")


def _headers(count: int) -> str:
    return json.dumps({f"h{number}": 1 for number in range(count)})


def _many(count: int, one: str) -> str:
    return "[" + ",".join([one] * count) + "]"


LIMITS: list[Limit] = [
    ("POST", _SEND, "delay", str(_DAYS_MS), str(_DAYS_MS + 1), _DAYS_MS),
    ("POST", _SEND, "delay", '"999d"', '"23976h1ms"', _DAYS_MS),
    ("POST", _SEND, "ttl", "1", "0", 1),
    ("POST", _SEND, "ttl", str(_DAYS_MS), str(_DAYS_MS + 1), _DAYS_MS),
    ("POST", _SEND, "max_retry", "10000", "10001", 10_000),
    ("POST", _SEND, "max_retry", "0", "-1", 0),
    ("POST", _SEND, "max_retry", "1e1", "1.5", "an integer"),
    ("POST", _SEND, "id", _text(200), _text(201), _ID_FORM),
    ("POST", _SEND, "id", '"~"', '""', _ID_FORM),
    ("POST", _SEND, "content_type", _media_type(255), _media_type(256), 255),
    ("POST", _SEND, "headers", _headers(64), _headers(65), 64),
    ("POST", _SEND, "headers", json.dumps({"a": "x" * 16_383}), json.dumps({"a": "x" * 16_384}), 16_384),
    ("POST", _PULL, "max", "100", "101", 100),
    ("POST", _PULL, "max", "1", "0", 1),
    ("POST", _PULL, "wait", "0", '"60001ms"', 60_000),
    ("POST", _PULL, "lease", "1000", "999", 1_000),
    ("POST", _PULL, "lease", str(_HALF_DAY_MS), str(_HALF_DAY_MS + 1), _HALF_DAY_MS),
    ("POST", _PULL, "ack", _many(1_000, '"u"'), _many(1_001, '"u"'), 1_000),
    ("POST", _PULL, "nack", _many(100, '{"receipt":"u"}'), _many(101, '{"receipt":"u"}'), 100),
    ("POST", "/v1/pull", "topics", _many(32, '"limits"'), _many(33, '"limits"'), 32),
    ("POST", f"{TOPIC}/ack", "ids", _many(1_000, '"u"'), _many(1_001, '"u"'), 1_000),
    ("POST", f"{TOPIC}/ack", "ids", '["u"]', "[]", 1),
    ("POST", _DEAD, "max", "1000", "1001", 1_000),
    ("PUT", TOPIC, "backoff", _many(100, "1"), _many(101, "1"), 100),
    ("PUT", TOPIC, "max_retry", "10000", "10001", 10_000),
]  # fmt: skip


def limited(method: str, path: str, field: str, text: str) -> Sent:
    """A valid request, with the JSON text for the field."""
    fields = {name: json.dumps(value) for name, value in _VALID.get(path, {}).items()} | {field: text}
    document = "{" + ",".join(f"{json.dumps(name)}:{value}" for name, value in fields.items()) + "}"
    return Sent(method, path.encode(), document.encode())
