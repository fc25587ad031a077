"""An envelope as bytes in Redis: one line of JSON (content type, headers), then, if it was kept, the body. The line is
empty where it would say nothing beyond the defaults."""

from __future__ import annotations

import orjson

from bridge.message import JSON_TYPE, Envelope


def pack(envelope: Envelope, keep_body_max: int) -> bytes:
    """The bytes to keep; empty where there is nothing beyond the defaults. Bodies over the limit are left out."""
    body = envelope.body
    keeps_body = body is not None and 0 < keep_body_max >= len(body)
    plain = not envelope.headers and not envelope.properties and envelope.content_type == JSON_TYPE
    if plain and not keeps_body:
        return b""
    parts = [envelope.content_type, dict(envelope.headers), dict(envelope.properties)]
    head = b"" if plain else orjson.dumps(parts, default=as_text)
    return head + b"\n" + body if keeps_body and body is not None else head


def unpack(packed: bytes) -> Envelope:
    head, newline, body = packed.partition(b"\n")
    kept = body if newline else None
    if not head:
        return Envelope(body=kept)
    content_type, headers, properties = orjson.loads(head)
    return Envelope(content_type=content_type, headers=headers, properties=properties, body=kept)


def as_text(value: object) -> str:
    """A header value of an AMQP client that JSON has no form for."""
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
