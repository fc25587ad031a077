"""Describes the HTTP calls on dead letters as `Operation` values, without I/O: list, replay and drop."""

from __future__ import annotations

from delaybridge_client.encode import given
from delaybridge_client.operation import Operation, keyed, reads, reads_count, reads_page
from delaybridge_client.values.message import Message
from delaybridge_client.values.page import Page


def list_dead(topic: str, *, limit: int | None = None, cursor: str | None = None) -> Operation[Page[Message]]:
    """Returns a page of the topic's dead letters, with reason and attempts."""
    return Operation(
        method="GET",
        path="/v1/topics/{topic}/dead",
        names={"topic": topic},
        query=given(limit=limit, cursor=cursor),
        read=reads_page(Message),
    )


def replay(topic: str, id: str) -> Operation[Message]:
    """Makes a dead letter ready again. The bridge counts its attempts from the start."""
    path = "/v1/topics/{topic}/dead/{id}/replay"
    return Operation(method="POST", path=path, names={"topic": topic, "id": id}, read=reads(Message), repeatable=False)


def replay_many(topic: str, *, max: int | None = None, idempotency_key: str | None = None) -> Operation[int]:
    """Makes up to `max` dead letters ready again, and returns their number."""
    return Operation(
        method="POST",
        path="/v1/topics/{topic}/dead/replay",
        names={"topic": topic},
        headers=keyed(idempotency_key),
        body=given(max=max),
        read=reads_count("replayed"),
        repeatable=idempotency_key is not None,
    )


def drop(topic: str, id: str) -> Operation[Message]:
    """Deletes a dead letter."""
    path = "/v1/topics/{topic}/dead/{id}"
    return Operation(
        method="DELETE", path=path, names={"topic": topic, "id": id}, read=reads(Message), repeatable=False
    )


def drop_many(topic: str, *, max: int | None = None) -> Operation[int]:
    """Deletes up to `max` dead letters, and returns their number."""
    return Operation(
        method="DELETE",
        path="/v1/topics/{topic}/dead",
        names={"topic": topic},
        query=given(max=max),
        read=reads_count("dropped"),
        repeatable=False,
    )
