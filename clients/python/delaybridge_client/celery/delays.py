"""Decides whether a task waits in a bridge, and how it is published then. Pure, apart from Celery's values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from celery.utils.time import maybe_iso8601, maybe_make_aware
from kombu.transport.native_delayed_delivery import MAX_NUMBER_OF_BITS_TO_USE

from delaybridge_client.encode import milliseconds
from delaybridge_client.errors import InvalidArgument

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST: Final = timedelta(days=999)
_PART: Final = re.compile(r"[A-Za-z0-9_.-]{1,100}")
_NATIVE: Final = "celery_delayed_"
_OURS: Final = ("x-delay", "x-deliver-at")


@dataclass(frozen=True, slots=True)
class Destination:
    """The exchange and the routing key to which Celery would publish the task. `queue`: the name of Celery's queue,
    which names the topic. `declare`: the objects that Celery would declare before the publish."""

    exchange: str
    routing_key: str
    queue: str
    declare: tuple[Any, ...] = ()


def due_at(headers: Mapping[str, Any], *, now: datetime, least: timedelta) -> datetime | None:
    """Returns when the task is due, if it must wait in a bridge. None: the task has no eta, or is due within `least`.

    Raises:
        InvalidArgument: the task is due in more than 999 days.
    """
    eta = headers.get("eta")
    if not eta:
        return None
    # Celery takes an eta without a time zone for UTC.
    moment: datetime = maybe_make_aware(maybe_iso8601(eta))
    if moment - now < least:
        return None
    if moment - now > _LONGEST:
        raise InvalidArgument(f"eta: {moment.isoformat()} is more than {_LONGEST.days} days ahead")
    return moment


def key_before_native_delay(exchange: str, routing_key: str) -> str | None:
    """Returns the original routing key of a task that Celery publishes to its native delayed delivery. Celery does so
    for quorum queues on a topic exchange. None: Celery publishes the task elsewhere."""
    if not exchange.startswith(_NATIVE):
        return None
    return routing_key.split(".", MAX_NUMBER_OF_BITS_TO_USE)[-1]


def topic_of(namespace: str, queue: str) -> str:
    """Returns the topic of a queue's delayed tasks.

    Raises:
        InvalidArgument: the names can't be a topic.
    """
    for name, value in (("namespace", namespace), ("queue", queue)):
        if not _PART.fullmatch(value):
            raise InvalidArgument(f"{name}: {value!r} must have 1-100 characters from A-Z a-z 0-9 _ . -")
    return f"{namespace}/{queue}"


def delayed_headers(headers: Mapping[str, Any], moment: datetime, destination: Destination) -> dict[str, Any]:
    """Returns the headers of a task that waits in a bridge. They have no eta, so that the worker runs the task as soon
    as it comes.

    Raises:
        InvalidArgument: the queue is bound only to the default exchange.
    """
    if not destination.exchange:
        raise InvalidArgument(
            f"queue: {destination.queue!r} has no exchange, to which a bridge could release the task; "
            f"declare it as Queue({destination.queue!r}, Exchange({destination.queue!r}), routing_key=…)"
        )
    return {
        **headers,
        "eta": None,
        "x-deliver-at": milliseconds(moment - _EPOCH),
        "x-delay-exchange": destination.exchange,
        "x-delay-routing-key": destination.routing_key,
    }


def own_headers(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the task's headers without the bridge's headers of an earlier delay. Celery passes a delivery's headers
    on to a retry."""
    return {name: value for name, value in headers.items() if not name.startswith(_OURS)}
