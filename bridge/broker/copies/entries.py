"""Writes copies as entries of a bundle, and reads entries. An entry is a line of JSON and the body. Pure.

    [14,"o-1001",1,181352341,1,3,1769850000000,0,1769849990000]
    {"order":1001}

The line begins with the length of the body in bytes, and the id. Then come epoch, nonce, attempt and retries. Three
moments in Unix ms follow: when the copy is due, when it expires (0: never), and when the message was created. The
content type, the headers and the other AMQP properties follow if a message has more than a JSON body. Last come
exchange and routing key of the message's target, if it has one.

The topic is in the bundle's routing key and never in the entry. RabbitMQ has checked the publisher's rights for this
routing key. So a client that forges an entry can do no more than a client that publishes a forged copy alone.
"""

from __future__ import annotations

from math import isfinite
from typing import Any, Final

import orjson

from bridge.broker.copies.copies import KEPT_PROPERTIES, NEVER_RESTORED, OWN_PREFIX
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import JSON_TYPE, Copy, Envelope, Target, valid_id
from topology.deaths import HOLDING
from topology.wheel import MAX_DELAY_MS

# In the end each copy is published alone, and its headers have to fit one frame. Operators may set frames of 4 KiB.
# Encoded as AMQP, headers are at most twice as long as in JSON.
_LONGEST_LINE: Final = 1_536
_LONGEST_NAME: Final = 128
_LARGEST: Final = 2**53 - 1  # Lua and JSON hold it exactly
# The largest values that the headers of a copy that travels alone can hold.
_LAST_EPOCH: Final = 10**15 - 1
_LAST_NONCE: Final = 2**48 - 1
_INT64: Final = range(-(2**63), 2**63)
_PROPERTIES: Final = frozenset(KEPT_PROPERTIES)


def encode(copy: Copy) -> bytes | None:
    """Returns the copy as an entry. None: an entry can't hold the copy, because of one of its values or because its
    line would be too long."""
    envelope = copy.envelope
    body = envelope.body or b""
    fields: list[Any] = [
        *(len(body), copy.id, copy.epoch, copy.nonce, copy.attempt, copy.max_retry),
        *(copy.due_ms, copy.expires_ms, copy.created_ms),
    ]
    if copy.asked or not 0 < copy.epoch <= _LAST_EPOCH:
        return None
    target = envelope.target
    if target is not None or envelope.headers or envelope.properties or envelope.content_type != JSON_TYPE:
        if not _fits_bundle(envelope):
            return None
        fields += (envelope.content_type, dict(envelope.headers), dict(envelope.properties))
        if target is not None:
            fields += (target.exchange, target.routing_key)
    try:
        line = orjson.dumps(fields)
    except TypeError:
        return None
    return b"%b\n%b\n" % (line, body) if len(line) <= _LONGEST_LINE else None


def decode(topic: str, entry: bytes, *, now_ms: int) -> Copy:
    """Reads the copy out of an entry. `topic`: from the routing key of the bundle. `now_ms`: Unix ms.

    Raises:
        ValueError, TypeError: the bytes are no entry, or have values that no bridge writes.
    """
    start = entry.index(b"\n") + 1
    size, *fields = orjson.loads(entry[: start - 1])
    if start + number(size) + 1 != len(entry) or not entry.endswith(b"\n"):
        raise ValueError(f"a body in the bundle is not {size} bytes long, as its line says")
    return _copy(topic, fields, entry[start:-1], now_ms + MAX_DELAY_MS)


def number(value: object, *, least: int = 0, most: int = _LARGEST) -> int:
    """Checks a number out of a bundle, and returns it.

    Raises:
        ValueError: the value is no whole number, or not in the range from `least` to `most`.
    """
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"a number in the bundle is {str(value)[:40]!r}; allowed is {least} to {most}")
    return value


def _fits_bundle(envelope: Envelope) -> bool:
    """Whether JSON can hold all values of the envelope without a change, and AMQP can certainly hold them."""
    return (
        len(envelope.content_type) <= _LONGEST_NAME
        and envelope.content_type.isascii()
        and not envelope.written
        and envelope.properties.keys() <= _PROPERTIES
        and all(_is_name(name) and _holds(value) for name, value in envelope.headers.items())
        and all(_holds(value) for value in envelope.properties.values())
    )


def _is_name(name: str) -> bool:
    if name.startswith(OWN_PREFIX) or name in NEVER_RESTORED:
        return False
    return len(name) <= _LONGEST_NAME and name.isascii()


def _holds(value: object) -> bool:
    if type(value) is int:
        return value in _INT64
    return type(value) in (str, bool) or (type(value) is float and isfinite(value))


def _copy(topic: str, fields: list[Any], body: bytes, latest_ms: int) -> Copy:
    message_id, epoch, nonce, attempt, max_retry, due_ms, expires_ms, created_ms, *rest = fields
    if type(message_id) is not str or not valid_id(message_id):
        raise ValueError(f"a copy in the bundle has the id {str(message_id)[:40]!r}, which no message can have")
    return Copy(
        topic=topic,
        id=message_id,
        epoch=number(epoch, least=1, most=_LAST_EPOCH),
        nonce=number(nonce, most=_LAST_NONCE),  # 0: an AMQP client published the message
        attempt=number(attempt, least=1),
        max_retry=number(max_retry),
        due_ms=min(number(due_ms), latest_ms),
        expires_ms=number(expires_ms, most=LATEST_INSTANT_MS),
        created_ms=number(created_ms, most=LATEST_INSTANT_MS),
        envelope=_envelope(body, *rest) if rest else Envelope(body=body),
    )


def _envelope(body: bytes, content_type: Any, headers: Any, properties: Any, *target: Any) -> Envelope:
    if type(content_type) is not str or type(headers) is not dict or type(properties) is not dict:
        raise TypeError("a copy in the bundle has no text and two tables for content type, headers and properties")
    if target and [type(one) for one in target] != [str, str]:
        raise TypeError("a copy in the bundle has a target that is not two texts, exchange and routing key")
    headers.pop(HOLDING, None)  # bridges before the version for RabbitMQ 4.4 packed it
    envelope = Envelope(
        content_type=content_type,
        headers=headers,
        body=body,
        properties=properties,
        target=Target(*target) if target else None,
    )
    if not _fits_bundle(envelope):
        raise ValueError("a copy in the bundle has headers or properties that are never packed")
    return envelope
