"""An envelope as bytes in Redis: one line of JSON (content type, headers), then, if it was kept, the body. The line is
empty where it would say nothing beyond the defaults. What is over a kilobyte is deflated, where that gains a quarter,
and then begins with a `z`.

JSON of 1.8 kB becomes 0.5 kB in 9 us and is back in 6, with a window of 4 kB, as zlib's usual one of 32 kB takes 50 us
to make ready. Prose takes 40 us a kilobyte, so what is very long is left as it is rather than hold up the others.
"""

from __future__ import annotations

import zlib
from typing import Final

import orjson

from bridge.model.header_values import as_text
from bridge.model.message import JSON_TYPE, Envelope

_SHORT, _LONG = 1_024, 16 * 1_024  # bytes, between which it is tried
_PROBE: Final = 1_024  # bytes, by which more is judged: what can't be made smaller costs no more than they do
_WINDOW_BITS, _MEMORY = -12, 4


def pack(envelope: Envelope, keep_body_max: int) -> bytes:
    """The bytes to keep; empty where there is nothing beyond the defaults. Bodies over the limit are left out."""
    body = envelope.body
    keeps_body = body is not None and 0 < keep_body_max >= len(body)
    plain = not envelope.headers and not envelope.properties and envelope.content_type == JSON_TYPE
    if plain and not keeps_body:
        return b""
    parts = [envelope.content_type, dict(envelope.headers), dict(envelope.properties)]
    head = b"" if plain else orjson.dumps(parts, default=as_text)
    return _smaller(head + b"\n" + body) if keeps_body and body is not None else head


def unpack(packed: bytes) -> Envelope:
    if packed[:1] == b"z":
        packed = zlib.decompress(packed[1:], _WINDOW_BITS)
    head, newline, body = packed.partition(b"\n")
    kept = body if newline else None
    if not head:
        return Envelope(body=kept)
    content_type, headers, properties = orjson.loads(head)
    return Envelope(content_type=content_type, headers=headers, properties=properties, body=kept)


def _smaller(packed: bytes) -> bytes:
    size = len(packed)
    if not _SHORT < size <= _LONG or (size > 2 * _PROBE and len(_deflated(packed[:_PROBE])) > _PROBE * 3 // 4):
        return packed
    small = b"z" + _deflated(packed)
    return small if len(small) <= size * 3 // 4 else packed


def _deflated(data: bytes) -> bytes:
    deflate = zlib.compressobj(1, zlib.DEFLATED, _WINDOW_BITS, _MEMORY)
    return deflate.compress(data) + deflate.flush()
