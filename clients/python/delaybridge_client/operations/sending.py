"""Makes the operations that send messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from delaybridge_client import decode
from delaybridge_client.operation import Answer, Operation, reads_list
from delaybridge_client.values.message import NewMessage, SendResult, SentMessage, Target


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
) -> Operation[SentMessage]:
    """Sends a message, which is durable once this returns. Its arguments are those of `NewMessage`.

    A retry has the same id, so there is one message whatever was lost. If a live message has the id already, the answer
    is that message, and `replayed` is true.
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
    )
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/messages",
        names={"topic": topic},
        body=message.members(),
        read=_sent,
    )


def send_many(topic: str, messages: Iterable[NewMessage]) -> Operation[tuple[SendResult, ...]]:
    """Sends up to 1000 messages. Each is accepted or refused alone, and the results are in the same order."""
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/messages/batch",
        names={"topic": topic},
        body={"messages": [message.members() for message in messages]},
        read=reads_list(SendResult, "results"),
    )


def _sent(answer: Answer) -> SentMessage:
    return decode.read(SentMessage, {**answer.json, "replayed": "idempotent-replay" in answer.headers})
