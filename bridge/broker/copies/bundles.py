"""Packs copies of one topic into one AMQP message, a bundle, and reads bundles. Pure.

A bundle's routing key names the kind of its copies: `!checked-bundle.orders` for sends, `!lease-bundle.orders` for
lease copies. Such a key leads to the checkpoint, even if the topic has direct release by then. A bridge that does not
know bundles finds no valid key and puts the bundle aside. In the management UI an operator sees the content type, four
headers and the first line. The headers are `x-delay-bundle` (how many copies), `x-delay-topic`, `x-delay-due` (of the
earliest copy) and `x-delay-last` (the due moment of the latest copy). The second line has two numbers for each copy,
the earliest first: its due moment in Unix ms, and the length of its entry. Then come the entries (`entries.py`):

    2 copies for orders: when each is due and how long it is, then each as a line of JSON and its body
    [1769850000000,75,1769850000800,75]
    [14,"o-1001",1,181352341,1,3,1769850000000,0,1769849990000]
    {"order":1001}
    ...

So the checkpoint finds the copies that are due, and packs the others again without reading them. A client can forge the
second line as it can forge a key. The numbers only decide when the checkpoint looks at a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Final, TypeGuard

import orjson
from ulid import ULID

from bridge.broker.copies.entries import number
from bridge.broker.copies.properties import Properties
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import CopyKind

_BUNDLE: Final = "-bundle"
_FORMER_BUNDLE: Final = "-parcel"  # the former name; such bundles may wait in the wheel for months
_KINDS: Final = {str(kind): kind for kind in CopyKind}
COUNT_HEADER: Final = "x-delay-bundle"
_FORMER_COUNT_HEADER: Final = "x-delay-parcel"
_LAST_HEADER: Final = "x-delay-last"  # former bundles have none, and no line of moments and lengths
CONTENT_TYPE: Final = "application/vnd.delaybridge.bundle"

MOST_COPIES: Final = 256
"""The most copies in a bundle. Bridges refuse a larger bundle, so never lower this number while bundles wait."""

MOST_BYTES: Final = 64 * 1024
"""The most bytes of a bundle's entries: one frame holds them. The checkpoint may hold its whole prefetch of bundles."""

LARGEST_ENTRY: Final = MOST_BYTES // 2
"""The longest entry in a bundle, in bytes. A copy with a longer entry travels alone."""

_PERSISTENT: Final = 2


@fast_dataclass(frozen=True, slots=True)
class Entry:
    """A copy in a bundle: its due moment in Unix ms, and its bytes (`entries.py`)."""

    due_ms: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Packed:
    """A bundle to publish. `indexes`: the positions of its copies among all entries given to `pack`."""

    indexes: tuple[int, ...]
    properties: Properties
    body: bytes


@dataclass(frozen=True, slots=True)
class Index:
    """The positions of a bundle's copies in its body, the earliest copy first. `dues_ms`: the due moments, in Unix ms.
    `offsets`: the byte at which each entry begins, and then the end of the last entry."""

    dues_ms: list[int]
    offsets: list[int]


def pack(topic: str, entries: Sequence[Entry]) -> list[Packed]:
    """Packs entries of one topic into as few bundles as possible. Returns the bundles, the earliest first."""
    packed: list[Packed] = []
    indexes: list[int] = []
    size_bytes = 0
    for index in sorted(range(len(entries)), key=lambda at: entries[at].due_ms):
        size = len(entries[index].data)
        if indexes and (len(indexes) == MOST_COPIES or size_bytes + size > MOST_BYTES):
            packed.append(_packed(topic, entries, indexes))
            indexes, size_bytes = [], 0
        indexes.append(index)
        size_bytes += size
    if indexes:
        packed.append(_packed(topic, entries, indexes))
    return packed


def kind_of_bundle(kind: CopyKind) -> str:
    """Returns the kind that the routing key of a bundle names. `kind`: the kind of the bundle's copies."""
    return f"{kind}{_BUNDLE}"


def is_of_bundle(kind: str | None) -> TypeGuard[str]:
    """Whether a message is a bundle. `kind`: the kind that its routing key names; None: the key names none."""
    return kind is not None and kind.endswith((_BUNDLE, _FORMER_BUNDLE))


def kind_within(kind: str) -> CopyKind:
    """Returns the kind of a bundle's copies. `kind`: the kind that the bundle's routing key names."""
    return kind_of(kind.removesuffix(_BUNDLE).removesuffix(_FORMER_BUNDLE))


def kind_of(kind: str | None) -> CopyKind:
    """Returns the kind of a copy. `kind`: the kind that its routing key names. None, or a kind that this version does
    not know, counts as plain."""
    return _KINDS.get(kind, CopyKind.PLAIN) if kind is not None else CopyKind.PLAIN


def due_ms(properties: Properties) -> int:
    """Returns when the earliest copy of a bundle is due, in Unix ms.

    Raises:
        ValueError: the bundle's headers do not say it.
    """
    return number((properties.headers or {}).get("x-delay-due"))


def count(properties: Properties) -> int:
    """Returns how many copies a bundle holds.

    Raises:
        ValueError: the bundle's headers do not say it, or name more copies than a bundle may hold.
    """
    headers = properties.headers or {}
    return number(headers.get(COUNT_HEADER, headers.get(_FORMER_COUNT_HEADER)), least=1, most=MOST_COPIES)


def index(properties: Properties, body: bytes) -> Index:
    """Returns where the copies of a bundle are in its body.

    Raises:
        ValueError, TypeError, IndexError: the body is no bundle.
    """
    copies = count(properties)
    start = body.index(b"\n") + 1
    if _LAST_HEADER not in (properties.headers or {}):
        return _former_index(body, start, copies)
    end = body.index(b"\n", start)
    numbers = orjson.loads(body[start:end])
    dues_ms, sizes = [number(one) for one in numbers[::2]], [number(one, least=1) for one in numbers[1::2]]
    offsets = list(accumulate(sizes, initial=end + 1))
    if not len(dues_ms) == len(sizes) == copies or offsets[-1] != len(body):
        raise ValueError(f"the bundle does not have the {copies} copies that its header and its second line say")
    if any(later < sooner for sooner, later in pairwise(dues_ms)):
        raise ValueError("the copies of the bundle are not in the order of their moments")
    return Index(dues_ms, offsets)


def _former_index(body: bytes, at: int, copies: int) -> Index:
    """Returns the index of a bundle in the format of earlier versions, which has no second line. Each copy gets the due
    moment of the earliest copy. `at`: the offset of the first entry. `copies`: how many copies the bundle holds."""
    dues_ms: list[int] = []
    offsets = [at]
    for _ in range(copies):
        start = body.index(b"\n", at) + 1
        size, _id, _epoch, _nonce, _attempt, _max_retry, due, *_ = orjson.loads(body[at : start - 1])
        at = start + number(size) + 1
        dues_ms.append(number(due))
        offsets.append(at)
    if at != len(body):
        raise ValueError(f"the bundle has {len(body) - at} bytes behind its last copy")
    return Index([min(dues_ms)] * copies, offsets)


def _packed(topic: str, entries: Sequence[Entry], indexes: Sequence[int]) -> Packed:
    chosen = [entries[at] for at in indexes]
    copies = "1 copy" if len(chosen) == 1 else f"{len(chosen)} copies"
    head = f"{copies} for {topic}: when each is due and how long it is, then each as a line of JSON and its body\n"
    line = orjson.dumps([*chain.from_iterable((entry.due_ms, len(entry.data)) for entry in chosen)])
    return Packed(
        indexes=tuple(indexes),
        properties=Properties(
            message_id=str(ULID()),
            content_type=CONTENT_TYPE,
            headers={
                "x-delay-topic": topic,
                "x-delay-due": chosen[0].due_ms,
                _LAST_HEADER: chosen[-1].due_ms,
                COUNT_HEADER: len(chosen),
            },
            delivery_mode=_PERSISTENT,
        ),
        body=b"".join((head.encode(), line, b"\n", *(entry.data for entry in chosen))),
    )
