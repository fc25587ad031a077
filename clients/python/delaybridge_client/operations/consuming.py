"""Describes the HTTP calls of consumers as `Operation` values, without I/O: pull, ack, nack and extend."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from delaybridge_client.encode import given
from delaybridge_client.operation import Operation, reads, reads_list
from delaybridge_client.values.message import AckResult, LeasedMessage, Message, Nack, Pulled

_MESSAGE: Final = "/v1/topics/{topic}/messages/{id}"


def pull(
    topic: str,
    *,
    max: int = 1,
    wait: timedelta = timedelta(),
    lease: timedelta | None = None,
    ack: Sequence[LeasedMessage] = (),
    nack: Sequence[Nack] = (),
) -> Operation[Pulled]:
    """Takes up to `max` ready messages, and waits up to `wait` for the first. Ack each before its `lease` ends.

    `lease` None: as long as the topic's policy says. A pull whose answer was lost may have leased messages. They are
    delivered again when their lease ends.

    `ack`, `nack`: up to 1000 and 100 earlier messages of the topic. The bridge settles them at once, even if the pull
    fails. So a repeated pull answers their acks with `acked` again, but their nacks with `stale`.
    """
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/pull",
        names={"topic": topic},
        body=given(
            max=max,
            wait=wait,
            lease=lease,
            ack=[message.receipt for message in ack] or None,
            nack=[_nack(one) for one in nack] or None,
        ),
        read=reads(Pulled),
        wait=wait,
    )


def pull_by_priority(
    topics: Sequence[str],
    *,
    max: int = 1,
    wait: timedelta = timedelta(),
    lease: timedelta | None = None,
    ack: Sequence[LeasedMessage] = (),
    nack: Sequence[Nack] = (),
) -> Operation[Pulled]:
    """Takes up to `max` ready messages of several topics, the most urgent first. Waits up to `wait` for the first
    message. `lease` None: as long as each topic's policy says. `ack`, `nack`: earlier messages of these topics, as in
    `pull`."""
    return Operation(
        method="POST",
        path="/v1/pull",
        body=given(
            topics=list(topics),
            max=max,
            wait=wait,
            lease=lease,
            ack=[{"topic": message.topic, "receipt": message.receipt} for message in ack] or None,
            nack=[{"topic": one.message.topic} | _nack(one) for one in nack] or None,
        ),
        read=reads(Pulled),
        wait=wait,
    )


def ack_many(
    topic: str, *, receipts: Sequence[str] | None = None, ids: Sequence[str] | None = None
) -> Operation[tuple[AckResult, ...]]:
    """Acks up to 1000 messages, by receipts or by ids. The results are in the order of the receipts or ids."""
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/ack",
        names={"topic": topic},
        body=given(
            receipts=None if receipts is None else list(receipts),
            ids=None if ids is None else list(ids),
        ),
        read=reads_list(AckResult, "results"),
    )


def ack(topic: str, id: str, *, receipt: str | None = None) -> Operation[Message]:
    """Ends the message: it is not delivered again. A call with a receipt succeeds only during the lease of that
    receipt."""
    return Operation(
        method="POST",
        path=f"{_MESSAGE}/ack",
        names={"topic": topic, "id": id},
        body=given(receipt=receipt),
        read=reads(Message),
    )


def nack(
    topic: str, id: str, *, receipt: str | None = None, delay: timedelta | None = None, reason: str | None = None
) -> Operation[Message]:
    """Gives back a message that could not be processed. It is delivered again after `delay`, or by default after the
    topic's back-off."""
    return Operation(
        method="POST",
        path=f"{_MESSAGE}/nack",
        names={"topic": topic, "id": id},
        body=given(receipt=receipt, delay=delay, reason=reason),
        read=reads(Message),
    )


def extend(topic: str, id: str, *, lease: timedelta, receipt: str | None = None) -> Operation[Message]:
    """Makes the lease of a message last at least for `lease` from now."""
    return Operation(
        method="POST",
        path=f"{_MESSAGE}/extend",
        names={"topic": topic, "id": id},
        body=given(lease=lease, receipt=receipt),
        read=reads(Message),
    )


def _nack(nack: Nack) -> dict[str, Any]:
    return given(receipt=nack.message.receipt, delay=nack.delay, reason=nack.reason)
