"""Makes the operations that send messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from delaybridge_client import decode
from delaybridge_client.operation import Answer, Operation, keyed, reads_list
from delaybridge_client.values.message import IfExists, NewMessage, SendResult, SentMessage, Target


def send(
    topic: str,
    body: Any,
    *,
    id: str | None = None,
    delay: timedelta | None = None,
    deliver_at: datetime | None = None,
    ttl: timedelta | None = None,
    max_retry: int | None = None,
    headers: Mapping[str, str | int | float | bool] | None = None,
    labels: Mapping[str, str] | None = None,
    content_type: str | None = None,
    to: Target | None = None,
    if_exists: IfExists | None = None,
    max_wait: timedelta | None = None,
    idempotency_key: str | None = None,
) -> Operation[SentMessage]:
    """Sends a message, which is durable once this returns. Its arguments are those of `NewMessage`.

    A retry has the same id, so there is one message whatever was lost. If a live message has the id already, the answer
    is that message, and `replayed` is true. `idempotency_key`: a later send with it has the same answer, also after the
    message has ended. All of the request must be the same, so without `id` the bridge makes the id.
    """
    message = NewMessage(
        body,
        id=id or "",
        delay=delay,
        deliver_at=deliver_at,
        ttl=ttl,
        max_retry=max_retry,
        headers=headers,
        labels=labels,
        content_type=content_type,
        to=to,
        if_exists=if_exists,
        max_wait=max_wait,
    )
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/messages",
        names={"topic": topic},
        headers=keyed(idempotency_key),
        body={name: value for name, value in message.members().items() if name != "id" or id or not idempotency_key},
        read=_sent,
    )


def send_many(
    topic: str, messages: Iterable[NewMessage], *, idempotency_key: str | None = None
) -> Operation[tuple[SendResult, ...]]:
    """Sends up to 1000 messages. Each is accepted or refused alone, and the results are in the same order.

    `idempotency_key`: as in `send`. Give the messages ids of yours then, or keep them for the next try.
    """
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/messages/batch",
        names={"topic": topic},
        headers=keyed(idempotency_key),
        body={"messages": [message.members() for message in messages]},
        read=reads_list(SendResult, "results"),
    )


def _sent(answer: Answer) -> SentMessage:
    return decode.read(SentMessage, {**answer.json, "replayed": "idempotent-replay" in answer.headers})
