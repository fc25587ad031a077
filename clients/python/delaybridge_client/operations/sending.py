"""Describes the HTTP calls that send messages, as `Operation` values, without I/O."""

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
    """Sends a message, which is durable once the call returns. `NewMessage` describes the other arguments.

    A retry has the id of the first try, so there is one message even if an answer was lost. If a live message has the
    id already, the answer is that message, and `replayed` is true.

    `idempotency_key`: a later send with this key gets the answer of the first send, even after the message has ended.
    The two requests must not differ, so with a key and without `id`, the bridge makes the id and not the client.
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
    """Sends up to 1000 messages. Each is accepted or refused alone. The results are in the order of the messages.

    `idempotency_key`: a later call with this key gets the answer of the first call. With a key, give the messages ids
    of your own, or keep the `NewMessage` objects for the next try.
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
