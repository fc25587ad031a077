"""Describes the HTTP calls on messages as `Operation` values, without I/O: look up, list, search, move and delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Literal

from delaybridge_client.encode import UNSET, given
from delaybridge_client.operation import Operation, reads, reads_page, reads_tagged
from delaybridge_client.values.message import Filter, Message, State, Timeline, content
from delaybridge_client.values.page import Page

_MESSAGE: Final = "/v1/topics/{topic}/messages/{id}"


def look_up(topic: str, id: str) -> Operation[Message]:
    """Returns the message with its state. An ended message is kept for the retention time, by default one hour."""
    return Operation(method="GET", path=_MESSAGE, names={"topic": topic, "id": id}, read=reads_tagged(Message))


def look_at_timeline(topic: str, id: str) -> Operation[Timeline]:
    """Returns the last steps of the message's life."""
    path = f"{_MESSAGE}/timeline"
    return Operation(method="GET", path=path, names={"topic": topic, "id": id}, read=reads(Timeline))


def list_messages(
    topic: str,
    *,
    state: Sequence[State] = (),
    due_after: datetime | None = None,
    due_before: datetime | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Operation[Page[Message]]:
    """Returns a page of the topic's messages, by due time."""
    return Operation(
        method="GET",
        path="/v1/topics/{topic}/messages",
        names={"topic": topic},
        query=given(state=state, due_after=due_after, due_before=due_before, limit=limit, cursor=cursor),
        read=reads_page(Message),
    )


def search(
    filter: Filter = Filter(),  # noqa: B008 - it can't change
    *,
    order: Literal["asc", "desc"] | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Operation[Page[Message]]:
    """Returns a page of the messages that match the filter, over all topics, by due time."""
    members = filter.members()
    labels = members.pop("labels", None)
    return Operation(
        method="GET",
        path="/v1/messages",
        query=members | given(label=labels, order=order, limit=limit, cursor=cursor),
        read=reads_page(Message),
    )


def move(
    topic: str,
    id: str,
    *,
    delay: timedelta | None = None,
    deliver_at: datetime | None = None,
    body: Any = UNSET,
    headers: Mapping[str, str | int | float | bool] | None = None,
    ttl: timedelta | None = None,
    max_retry: int | None = None,
    labels: Mapping[str, str] | None = None,
    content_type: str | None = None,
    if_match: str | None = None,
) -> Operation[Message]:
    """Changes when a waiting message is due: in `delay` from now, or at `deliver_at`. `timedelta(0)` makes it due now.

    In one step it also changes every other field that is given. `headers` and `labels` replace all that the message
    has. `if_match`: the `etag` of the message as you have seen it; raises `PreconditionFailed` if the message has
    changed since.
    """
    return Operation(
        method="PATCH",
        path=_MESSAGE,
        names={"topic": topic, "id": id},
        headers=given(**{"If-Match": if_match}),
        body=(given(content_type=content_type) if body is UNSET else content(body, content_type))
        | given(delay=delay, deliver_at=deliver_at, headers=headers, ttl=ttl, max_retry=max_retry, labels=labels),
        read=reads_tagged(Message),
        repeatable=if_match is None,
    )


def delete(topic: str, id: str, *, release: bool = False, if_match: str | None = None) -> Operation[Message]:
    """Deletes a message. If the call returns before the message is due, no consumer gets it.

    `release`: also deletes the stored body and headers, so that only a tombstone is left. `if_match`: the `etag` of the
    message as you have seen it; raises `PreconditionFailed` if the message has changed since.
    """
    return Operation(
        method="DELETE",
        path=_MESSAGE,
        names={"topic": topic, "id": id},
        headers=given(**{"If-Match": if_match}),
        query=given(release=release or None),
        read=reads_tagged(Message),
        repeatable=if_match is None,
    )
