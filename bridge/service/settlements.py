"""Settles leases for a pull: acks and nacks by receipt, of one or several topics.

A consumer that takes one message at a time then needs one call for each. The call settles the leases before it pulls,
so neither a wait nor a failure of the pull delays or prevents that. Settling and pulling at the same time was no faster
and took more CPU, as consumers keep the process busy anyway.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar, assert_never

from bridge.model.errors import BridgeError, Conflict, InvalidRequest, NotFound
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.message import Record
from bridge.model.values import AckVerdict, Nack, Settled, SettledLease
from bridge.service.protocol import receipts
from bridge.service.settling import Settling

Item = TypeVar("Item")


@fast_dataclass(frozen=True, slots=True)
class ToSettle:
    """The leases that a call settles. `acks`: topics and receipts. `nacks`: topics and nacks, each with a receipt.
    None: the call has no such list."""

    acks: Sequence[tuple[str, str]] | None = None
    nacks: Sequence[tuple[str, Nack]] | None = None

    @property
    def is_nothing(self) -> bool:
        return self.acks is None and self.nacks is None


@fast_dataclass(frozen=True, slots=True)
class Settlements:
    """What was settled: one result for each lease, in order. None: the call has no such list."""

    acked: list[SettledLease] | None = None
    nacked: list[SettledLease] | None = None


async def settle(settling: Settling, to_settle: ToSettle) -> Settlements:
    """Acks and nacks leases, those of each topic together.

    Raises:
        Unavailable: a server did not answer for some of the leases. The others are settled.
    """

    one_topic = asyncio.Lock()  # a nack reads bodies, so the bodies of several topics might need much memory

    async def ack(topic: str, texts: Sequence[str]) -> list[SettledLease]:
        results = await settling.ack_receipts(topic, texts)
        return [SettledLease(id=one.id, result=_of_ack(one.verdict)) for one in results]

    async def nack(topic: str, wanted: Sequence[Nack]) -> list[SettledLease]:
        async with one_topic:
            results = await settling.nack_receipts(topic, wanted)
        return [
            SettledLease(id=_id_in(one.receipt or ""), result=_of_nack(result))
            for one, result in zip(wanted, results, strict=True)
        ]

    acks, nacks = to_settle.acks, to_settle.nacks
    if nacks is None:
        return Settlements(acked=None if acks is None else await _by_topic(acks, ack))
    if acks is None:
        return Settlements(nacked=await _by_topic(nacks, nack))
    return Settlements(*await _all(_by_topic(acks, ack), _by_topic(nacks, nack)))


async def _by_topic(
    wanted: Sequence[tuple[str, Item]], settle: Callable[[str, Sequence[Item]], Awaitable[list[SettledLease]]]
) -> list[SettledLease]:
    """Settles the leases of each topic together, and returns the results in the order of `wanted`."""
    places: dict[str, list[int]] = {}
    for at, (topic, _) in enumerate(wanted):
        places.setdefault(topic, []).append(at)
    parts = [settle(topic, [wanted[at][1] for at in its_own]) for topic, its_own in places.items()]
    if len(parts) == 1:
        return await parts[0]
    placed: dict[int, SettledLease] = {}
    for its_own, results in zip(places.values(), await _all(*parts), strict=True):
        placed |= zip(its_own, results, strict=True)
    return [placed[at] for at in range(len(wanted))]


async def _all(*parts: Awaitable[list[SettledLease]]) -> list[list[SettledLease]]:
    """Awaits all parts at once. Raises the error of one that failed, once all have ended."""
    done = await asyncio.gather(*parts, return_exceptions=True)
    for one in done:
        if isinstance(one, BaseException):
            raise one
    return [one for one in done if not isinstance(one, BaseException)]


def _of_ack(verdict: AckVerdict) -> Settled:
    match verdict:
        case AckVerdict.ACKED:
            return Settled.ACKED
        case AckVerdict.STALE | AckVerdict.NOT_LEASED:
            return Settled.STALE
        case AckVerdict.UNKNOWN:
            return Settled.UNKNOWN
        case _:
            assert_never(verdict)


def _of_nack(result: Record | BridgeError) -> Settled:
    match result:
        case Record():
            return Settled.NACKED
        case Conflict():
            return Settled.STALE
        case NotFound() | InvalidRequest():
            return Settled.UNKNOWN
        case _:
            raise result  # nobody knows what became of the lease


def _id_in(receipt: str) -> str | None:
    try:
        return receipts.read(receipt).id
    except InvalidRequest:
        return None
