"""Describes the HTTP calls on topics and their policies as `Operation` values, without I/O."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from delaybridge_client.encode import UNSET, Unset, changed, given
from delaybridge_client.operation import Operation, reads, reads_nothing, reads_page
from delaybridge_client.values.page import Page
from delaybridge_client.values.topic import Backoff, Policy, Release, Topic

_TOPIC: Final = "/v1/topics/{topic}"


def list_topics(
    *, prefix: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Operation[Page[Topic]]:
    """Returns a page of the topics whose names begin with the prefix; None: of all topics."""
    return Operation(
        method="GET",
        path="/v1/topics",
        query=given(prefix=prefix, limit=limit, cursor=cursor),
        read=reads_page(Topic, "topics"),
    )


def look_at_topic(topic: str) -> Operation[Topic]:
    """Returns the topic with its counts and its policy."""
    return Operation(method="GET", path=_TOPIC, names={"topic": topic}, read=reads(Topic))


def put_policy(
    topic: str,
    *,
    release: Release | None = None,
    max_retry: int | None = None,
    ttl: timedelta | None = None,
    lease: timedelta | None = None,
    backoff: Backoff | None = None,
    paused: bool | None = None,
    keep_body_max: int | None = None,
) -> Operation[Policy]:
    """Sets the whole policy of the topic. A field that is None takes the bridge's setting."""
    return Operation(
        method="PUT",
        path=_TOPIC,
        names={"topic": topic},
        body=given(
            release=release,
            max_retry=max_retry,
            ttl=ttl,
            lease=lease,
            backoff=None if backoff is None else backoff.as_json(),
            paused=paused,
            keep_body_max=keep_body_max,
        ),
        read=reads(Policy),
    )


def patch_policy(
    topic: str,
    *,
    release: Release | Unset | None = UNSET,
    max_retry: int | Unset | None = UNSET,
    ttl: timedelta | Unset | None = UNSET,
    lease: timedelta | Unset | None = UNSET,
    backoff: Backoff | Unset | None = UNSET,
    paused: bool | Unset | None = UNSET,
    keep_body_max: int | Unset | None = UNSET,
) -> Operation[Policy]:
    """Changes the given fields of the topic's policy. A field that is None takes the bridge's setting."""
    return Operation(
        method="PATCH",
        path=_TOPIC,
        names={"topic": topic},
        body=changed(
            release=release,
            max_retry=max_retry,
            ttl=ttl,
            lease=lease,
            backoff=backoff.as_json() if isinstance(backoff, Backoff) else backoff,
            paused=paused,
            keep_body_max=keep_body_max,
        ),
        read=reads(Policy),
    )


def remove_topic(topic: str, *, force: bool = False) -> Operation[None]:
    """Removes an empty topic. `force`: also removes a topic that has messages, and deletes these messages."""
    return Operation(
        method="DELETE",
        path=_TOPIC,
        names={"topic": topic},
        query=given(force=force or None),
        read=reads_nothing,
        repeatable=False,
    )


def pause(topic: str) -> Operation[Policy]:
    """Stops releases and pulls of the topic."""
    return Operation(method="POST", path=f"{_TOPIC}/pause", names={"topic": topic}, read=reads(Policy))


def resume(topic: str) -> Operation[Policy]:
    """Ends the pause of the topic."""
    return Operation(method="POST", path=f"{_TOPIC}/resume", names={"topic": topic}, read=reads(Policy))
