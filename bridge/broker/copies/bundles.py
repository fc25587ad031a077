"""Bundles: several copies of one topic that come due together, as one AMQP message. Pure.

Its key says that it is one: `!lease-bundle.orders`, of lease copies, `!plain-bundle.orders`, of copies of no kind. So
it goes to the checkpoint whatever its topic's release is by then, and to a bridge that knows no bundles it is no key,
and is put aside. To whoever looks at it in the management UI it says what it is by its content type, by the headers
`x-delay-bundle` (how many copies), `x-delay-topic` and `x-delay-due` (of the earliest), and by its first line. Then
each copy has a line of JSON and its body:

    3 copies for orders: for each a line of JSON, which begins with the length of the body behind it
    [14,"o-1001",1,181352341,1,3,1769850000000,0,1769849990000]
    {"order":1001}
    ...

The numbers are epoch, nonce, attempt, retries, and when it is due, expires and was made, in Unix ms. Behind them stand
the content type, the headers and the other AMQP properties of a message that has any beyond JSON.

Its topic is never read from it but from its key, for which the broker has checked the publisher's rights: a client that
forges a bundle can do what it could by publishing forged copies one by one, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final, TypeGuard

import orjson
from pamqp import commands as spec
from ulid import ULID

from bridge.broker.copies.copies import KEPT_PROPERTIES, OWN_PREFIX
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import JSON_TYPE, Copy, CopyKind, Envelope, valid_id
from topology.deaths import BROKER_HEADERS
from topology.wheel import MAX_DELAY_MS

_BUNDLE: Final = "-bundle"
_FORMER_BUNDLE: Final = "-parcel"  # bundles had this name before; some may wait for months
_KINDS: Final = {str(kind): kind for kind in CopyKind}
COUNT_HEADER: Final = "x-delay-bundle"
_FORMER_COUNT_HEADER: Final = "x-delay-parcel"
CONTENT_TYPE: Final = "application/vnd.delaybridge.bundle"

MOST_COPIES: Final = 256
"""Bundles with more are refused, so it must never be lowered while any wait."""

MOST_BYTES: Final = 64 * 1024
"""Of a body. The checkpoint may hold its whole prefetch of them; and one frame holds it."""

# Each copy is published alone in the end, and its headers have to fit a frame then, of which operators may allow 4 KiB.
# As AMQP has them they are at most twice as long.
_LONGEST_LINE: Final = 1_536
_LONGEST_NAME: Final = 128
_LARGEST: Final = 2**53 - 1  # that Lua and JSON hold exactly
# What the headers of a copy that travels alone can say, and is read of them.
_LAST_EPOCH: Final = 10**15 - 1
_LAST_NONCE: Final = 2**48 - 1
_INT64: Final = range(-(2**63), 2**63)
# What no copy is read with: the broker's own, and what would route a copy at once and past its delay.
_NEVER_PASSED_ON: Final = BROKER_HEADERS | {"CC", "BCC"}
_PROPERTIES: Final = frozenset(KEPT_PROPERTIES)
_PERSISTENT: Final = 2


@dataclass(frozen=True, slots=True)
class Bundle:
    """`places`: those of its copies in what was packed."""

    places: tuple[int, ...]
    properties: spec.Basic.Properties
    body: bytes


def pack(copies: Sequence[Copy]) -> list[Bundle]:
    """Copies of one topic in as few bundles as hold them. What is in none travels alone: a copy that is left over, is
    large, or has what JSON does not hold as AMQP does."""
    bundles: list[Bundle] = []
    places: list[int] = []
    entries: list[bytes] = []
    size_bytes = 0
    for place, copy in enumerate(copies):
        entry = _entry(copy)
        if entry is None or len(entry) > MOST_BYTES // 2:
            continue
        if len(places) == MOST_COPIES or size_bytes + len(entry) > MOST_BYTES:
            bundles.append(_bundle(copies, places, entries))
            places, entries, size_bytes = [], [], 0
        places.append(place)
        entries.append(entry)
        size_bytes += len(entry)
    if len(places) > 1:
        bundles.append(_bundle(copies, places, entries))
    return bundles


def kind_of_bundle(kind: CopyKind) -> str:
    """What the key of a bundle of such copies says."""
    return f"{kind}{_BUNDLE}"


def is_of_bundle(kind: str | None) -> TypeGuard[str]:
    return kind is not None and kind.endswith((_BUNDLE, _FORMER_BUNDLE))


def kind_within(kind: str) -> CopyKind:
    """What the copies of a bundle of that kind are."""
    return kind_of(kind.removesuffix(_BUNDLE).removesuffix(_FORMER_BUNDLE))


def kind_of(kind: str | None) -> CopyKind:
    """The kind that a key says. A kind that this version does not know is treated as plain."""
    return _KINDS.get(kind, CopyKind.PLAIN) if kind is not None else CopyKind.PLAIN


def due_ms(properties: spec.Basic.Properties) -> int:
    """When the earliest copy is due.

    Raises:
        ValueError: it does not say.
    """
    return _number((properties.headers or {}).get("x-delay-due"))


def count(properties: spec.Basic.Properties) -> int:
    """How many copies it holds.

    Raises:
        ValueError: it does not say, or they are more than are put into one.
    """
    headers = properties.headers or {}
    return _number(headers.get(COUNT_HEADER, headers.get(_FORMER_COUNT_HEADER)), least=1, most=MOST_COPIES)


def part(topic: str, properties: spec.Basic.Properties, body: bytes, *, now_ms: int) -> list[Copy]:
    """The copies in a bundle.

    Raises:
        ValueError, TypeError: it is none, or none of ours.
    """
    latest_ms = now_ms + MAX_DELAY_MS
    copies = []
    at = body.index(b"\n") + 1
    for _ in range(count(properties)):
        start = body.index(b"\n", at) + 1
        size, *fields = orjson.loads(body[at : start - 1])
        end = start + _number(size)
        if body[end : end + 1] != b"\n":
            raise ValueError("a body in the bundle is not as long as its line says")
        copies.append(_copy(topic, fields, body[start:end], latest_ms))
        at = end + 1
    if at != len(body):
        raise ValueError("there is more in the bundle than its copies")
    return copies


def _bundle(copies: Sequence[Copy], places: list[int], entries: list[bytes]) -> Bundle:
    first = copies[places[0]]
    says = f"{len(places)} copies for {first.topic}: for each a line of JSON, which begins with the length of the body"
    return Bundle(
        places=tuple(places),
        properties=spec.Basic.Properties(
            message_id=str(ULID()),
            content_type=CONTENT_TYPE,
            headers={
                "x-delay-topic": first.topic,
                "x-delay-due": min(copies[place].due_ms for place in places),
                COUNT_HEADER: len(places),
            },
            delivery_mode=_PERSISTENT,
            timestamp=datetime.fromtimestamp(first.created_ms // 1_000, UTC),
        ),
        body=b"".join((f"{says} behind it\n".encode(), *entries)),
    )


def _entry(copy: Copy) -> bytes | None:
    """A copy's line and body; None: it can't be told in a bundle."""
    envelope = copy.envelope
    body = envelope.body or b""
    facts: list[Any] = [
        *(len(body), copy.id, copy.epoch, copy.nonce, copy.attempt, copy.max_retry),
        *(copy.due_ms, copy.expires_ms, copy.created_ms),
    ]
    if copy.asked or not 0 < copy.epoch <= _LAST_EPOCH:
        return None
    if envelope.headers or envelope.properties or envelope.content_type != JSON_TYPE:
        if not _told(envelope):
            return None
        facts += (envelope.content_type, dict(envelope.headers), dict(envelope.properties))
    try:
        line = orjson.dumps(facts)
    except TypeError:
        return None
    return b"%b\n%b\n" % (line, body) if len(line) <= _LONGEST_LINE else None


def _told(envelope: Envelope) -> bool:
    """Whether JSON holds it as AMQP does, and AMQP holds it for certain."""
    return (
        len(envelope.content_type) <= _LONGEST_NAME
        and envelope.content_type.isascii()
        and envelope.properties.keys() <= _PROPERTIES
        and all(_is_name(name) and _holds(value) for name, value in envelope.headers.items())
        and all(_holds(value) for value in envelope.properties.values())
    )


def _is_name(name: str) -> bool:
    if name.startswith(OWN_PREFIX) or name in _NEVER_PASSED_ON:
        return False
    return len(name) <= _LONGEST_NAME and name.isascii()


def _holds(value: object) -> bool:
    if type(value) is int:
        return value in _INT64
    return type(value) in (str, bool) or (type(value) is float and isfinite(value))


def _copy(topic: str, fields: list[Any], body: bytes, latest_ms: int) -> Copy:
    message_id, epoch, nonce, attempt, max_retry, due_ms, expires_ms, created_ms, *rest = fields
    if type(message_id) is not str or not valid_id(message_id):
        raise ValueError("a copy in the bundle has no id that a message can have")
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
        raise TypeError("a copy in the bundle has another envelope than messages have")
    envelope = Envelope(content_type=content_type, headers=headers, body=body, properties=properties)
    if not _told(envelope):
        raise ValueError("a copy in the bundle has headers that none is packed with")
    return envelope


def _number(value: object, *, least: int = 0, most: int = _LARGEST) -> int:
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"a number in the bundle is {str(value)[:40]!r}")
    return value
