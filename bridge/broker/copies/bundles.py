"""Packs several copies of one topic that are due together into one AMQP message, a bundle. Pure.

The key names the kind of its copies: `!checked-bundle.orders` for sends, `!lease-bundle.orders` for lease copies.
Such a key leads to the checkpoint, even if the topic has direct release by then. A bridge that does not know bundles
finds no valid key and puts the bundle aside. In the management UI an operator sees the content type, three headers and
the first line. The headers are `x-delay-bundle` (how many copies), `x-delay-topic` and `x-delay-due` (of the earliest).
After the first line each copy has a line of JSON and its body:

    3 copies for orders: for each a line of JSON, which begins with the length of the body behind it
    [14,"o-1001",1,181352341,1,3,1769850000000,0,1769849990000]
    {"order":1001}
    ...

The numbers after the id are epoch, nonce, attempt and retries. Then follow three moments in Unix ms: when the copy is
due, when it expires, and when it was made. The content type, the headers and the other AMQP properties follow if a
message has more than a JSON body.

The topic is read from the key and never from the body, since the broker has checked the publisher's rights for the key.
So a client that forges a bundle can do no more than by publishing forged copies one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, TypeGuard

import orjson
from ulid import ULID

from bridge.broker.copies.copies import KEPT_PROPERTIES, NEVER_RESTORED, OWN_PREFIX
from bridge.broker.copies.properties import Properties
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import JSON_TYPE, Copy, CopyKind, Envelope, valid_id
from topology.wheel import MAX_DELAY_MS

_BUNDLE: Final = "-bundle"
_FORMER_BUNDLE: Final = "-parcel"  # the former name; such bundles may wait in the wheel for months
_KINDS: Final = {str(kind): kind for kind in CopyKind}
COUNT_HEADER: Final = "x-delay-bundle"
_FORMER_COUNT_HEADER: Final = "x-delay-parcel"
CONTENT_TYPE: Final = "application/vnd.delaybridge.bundle"

MOST_COPIES: Final = 256
"""A larger bundle is refused, so never lower this while bundles wait."""

MOST_BYTES: Final = 64 * 1024
"""The largest body of a bundle: one frame holds it. The checkpoint may hold its whole prefetch of them."""

# At the end each copy is published alone, and its headers have to fit one frame. Operators may set frames of 4 KiB.
# Encoded as AMQP, headers are at most twice as long as in JSON.
_LONGEST_LINE: Final = 1_536
_LONGEST_NAME: Final = 128
_LARGEST: Final = 2**53 - 1  # Lua and JSON hold it exactly
# The largest values that the headers of a copy that travels alone can hold.
_LAST_EPOCH: Final = 10**15 - 1
_LAST_NONCE: Final = 2**48 - 1
_INT64: Final = range(-(2**63), 2**63)
_PROPERTIES: Final = frozenset(KEPT_PROPERTIES)
_PERSISTENT: Final = 2


@dataclass(frozen=True, slots=True)
class Packed:
    """A bundle to publish. `indexes`: the positions of its copies among all copies given to `pack`."""

    indexes: tuple[int, ...]
    properties: Properties
    body: bytes


def pack(copies: Sequence[Copy]) -> list[Packed]:
    """Packs copies of one topic into as few bundles as hold them.

    Some copies are in no bundle and travel alone: a single one that is left over, a large one, and one with values that
    JSON does not hold as AMQP does.
    """
    packed: list[Packed] = []
    indexes: list[int] = []
    entries: list[bytes] = []
    size_bytes = 0
    for index, copy in enumerate(copies):
        entry = _entry(copy)
        if entry is None or len(entry) > MOST_BYTES // 2:
            continue
        if len(indexes) == MOST_COPIES or size_bytes + len(entry) > MOST_BYTES:
            packed.append(_packed(copies, indexes, entries))
            indexes, entries, size_bytes = [], [], 0
        indexes.append(index)
        entries.append(entry)
        size_bytes += len(entry)
    if len(indexes) > 1:
        packed.append(_packed(copies, indexes, entries))
    return packed


def kind_of_bundle(kind: CopyKind) -> str:
    """Returns the kind for the key of a bundle of such copies."""
    return f"{kind}{_BUNDLE}"


def is_of_bundle(kind: str | None) -> TypeGuard[str]:
    """Returns whether the kind in a key says that the message is a bundle."""
    return kind is not None and kind.endswith((_BUNDLE, _FORMER_BUNDLE))


def kind_within(kind: str) -> CopyKind:
    """Returns the kind of the copies in a bundle of that kind."""
    return kind_of(kind.removesuffix(_BUNDLE).removesuffix(_FORMER_BUNDLE))


def kind_of(kind: str | None) -> CopyKind:
    """Returns the kind that a key names. A kind that this version does not know is treated as plain."""
    return _KINDS.get(kind, CopyKind.PLAIN) if kind is not None else CopyKind.PLAIN


def due_ms(properties: Properties) -> int:
    """Returns when the earliest copy is due, in Unix ms.

    Raises:
        ValueError: the bundle does not say.
    """
    return _number((properties.headers or {}).get("x-delay-due"))


def count(properties: Properties) -> int:
    """Returns how many copies the bundle holds.

    Raises:
        ValueError: the bundle does not say, or says more than a bundle may hold.
    """
    headers = properties.headers or {}
    return _number(headers.get(COUNT_HEADER, headers.get(_FORMER_COUNT_HEADER)), least=1, most=MOST_COPIES)


def unpack(topic: str, properties: Properties, body: bytes, *, now_ms: int) -> list[Copy]:
    """Returns the copies in a bundle.

    Raises:
        ValueError, TypeError: the body is no bundle, or a forged one.
    """
    latest_ms = now_ms + MAX_DELAY_MS
    copies = []
    at = body.index(b"\n") + 1
    for _ in range(count(properties)):
        start = body.index(b"\n", at) + 1
        size, *fields = orjson.loads(body[at : start - 1])
        end = start + _number(size)
        if body[end : end + 1] != b"\n":
            raise ValueError(f"a body in the bundle is not {size} bytes long, as its line says")
        copies.append(_copy(topic, fields, body[start:end], latest_ms))
        at = end + 1
    if at != len(body):
        raise ValueError(f"the bundle has {len(body) - at} bytes behind its last copy")
    return copies


def _packed(copies: Sequence[Copy], indexes: list[int], entries: list[bytes]) -> Packed:
    first = copies[indexes[0]]
    head = f"{len(indexes)} copies for {first.topic}: for each a line of JSON, which begins with the length of the body"
    return Packed(
        indexes=tuple(indexes),
        properties=Properties(
            message_id=str(ULID()),
            content_type=CONTENT_TYPE,
            headers={
                "x-delay-topic": first.topic,
                "x-delay-due": min(copies[index].due_ms for index in indexes),
                COUNT_HEADER: len(indexes),
            },
            delivery_mode=_PERSISTENT,
            timestamp_ms=first.created_ms // 1_000 * 1_000,
        ),
        body=b"".join((f"{head} behind it\n".encode(), *entries)),
    )


def _entry(copy: Copy) -> bytes | None:
    """Encodes a copy's line and body. None: the copy has a value that a bundle can't hold."""
    envelope = copy.envelope
    body = envelope.body or b""
    fields: list[Any] = [
        *(len(body), copy.id, copy.epoch, copy.nonce, copy.attempt, copy.max_retry),
        *(copy.due_ms, copy.expires_ms, copy.created_ms),
    ]
    if copy.asked or not 0 < copy.epoch <= _LAST_EPOCH:
        return None
    if envelope.headers or envelope.properties or envelope.content_type != JSON_TYPE:
        if not _fits_bundle(envelope):
            return None
        fields += (envelope.content_type, dict(envelope.headers), dict(envelope.properties))
    try:
        line = orjson.dumps(fields)
    except TypeError:
        return None
    return b"%b\n%b\n" % (line, body) if len(line) <= _LONGEST_LINE else None


def _fits_bundle(envelope: Envelope) -> bool:
    """Returns whether JSON holds all values as AMQP does, and AMQP holds them for certain."""
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
        epoch=_number(epoch, least=1, most=_LAST_EPOCH),
        nonce=_number(nonce, least=1, most=_LAST_NONCE),
        attempt=_number(attempt, least=1),
        max_retry=_number(max_retry),
        due_ms=min(_number(due_ms), latest_ms),
        expires_ms=_number(expires_ms, most=LATEST_INSTANT_MS),
        created_ms=_number(created_ms, most=LATEST_INSTANT_MS),
        envelope=_envelope(body, *rest) if rest else Envelope(body=body),
    )


def _envelope(body: bytes, content_type: Any, headers: Any, properties: Any) -> Envelope:
    if type(content_type) is not str or type(headers) is not dict or type(properties) is not dict:
        raise TypeError("a copy in the bundle has no text and two tables for content type, headers and properties")
    envelope = Envelope(content_type=content_type, headers=headers, body=body, properties=properties)
    if not _fits_bundle(envelope):
        raise ValueError("a copy in the bundle has headers or properties that are never packed")
    return envelope


def _number(value: object, *, least: int = 0, most: int = _LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"a number in the bundle is {str(value)[:40]!r}; allowed is {least} to {most}")
    return value
