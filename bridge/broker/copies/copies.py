"""A copy as AMQP carries it: its headers and properties, there and back. Pure.

message_id, content_type, timestamp     as the producer gave them, or made for it
x-delay-topic      the topic
x-delay-due        when this copy is due, in Unix ms
x-delay-attempt    the number of the delivery it makes, from 1
x-delay-max-retry  failed deliveries after which it is a dead letter
x-delay-copy       epoch and nonce, "3.1f0c…": which copy of its message it is
x-delay-expires    when its time to live passes, in Unix ms; absent: never
x-delay-asked      how often it was found to be newer than its record; absent: never
x-delay-reason     in a dead letter: why
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pamqp import commands as spec
from ulid import ULID

from bridge.broker.client.delivery import Delivery
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import JSON_TYPE, Copy, Envelope, valid_id
from topology.deaths import DEATH_HEADERS, strip
from topology.wheel import MAX_DELAY_MS

OWN_PREFIX = "x-delay-"
# A producer's CC and BCC would route a copy at once and past its delay; deaths are the broker's to tell.
_NEVER_PASSED_ON = DEATH_HEADERS | {"CC", "BCC", "x-delivery-count", "x-acquired-count"}
_PERSISTENT = 2
# Numbers that Lua holds exactly: anything else is no copy of ours.
_COPY = re.compile(r"([1-9][0-9]{0,14})\.([0-9a-f]{1,12})")
# A client may have written any; an answer and a bundle can tell these.
_MOST = 2**31 - 1
# The broker refuses a longer one. Until such a message is pulled over HTTP nobody holds it to its time to live.
LONGEST_EXPIRATION_MS = 2**32 - 1
KEPT_PROPERTIES = ("content_encoding", "priority", "correlation_id", "reply_to", "message_type", "app_id")


def to_properties(copy: Copy, *, parked: bool = False, live_for_ms: int = 0, reason: str = "") -> spec.Basic.Properties:
    """The properties to publish a copy with. `parked`: into the wheel. `live_for_ms` is the time to live it has left,
    0 for none."""
    headers: dict[str, Any] = dict(copy.envelope.headers)
    properties = dict(copy.envelope.properties)
    if parked and (priority := properties.pop("priority", None)) is not None:
        headers["x-delay-priority"] = priority
    headers["x-delay-topic"] = copy.topic
    headers["x-delay-due"] = copy.due_ms
    headers["x-delay-attempt"] = copy.attempt
    headers["x-delay-max-retry"] = copy.max_retry
    headers["x-delay-copy"] = f"{copy.epoch}.{copy.nonce:x}"
    if copy.expires_ms:
        headers["x-delay-expires"] = copy.expires_ms
    if copy.asked:
        headers["x-delay-asked"] = copy.asked
    if reason:
        headers["x-delay-reason"] = reason
    return spec.Basic.Properties(
        **properties,
        message_id=copy.id,
        content_type=copy.envelope.content_type,
        headers=headers,
        delivery_mode=_PERSISTENT,
        timestamp=datetime.fromtimestamp(copy.created_ms // 1_000, UTC),
        expiration=str(live_for_ms) if 0 < live_for_ms <= LONGEST_EXPIRATION_MS else None,
    )


def from_properties(topic: str, properties: spec.Basic.Properties, body: bytes, *, now_ms: int, max_retry: int) -> Copy:
    """The copy a delivery is. What an AMQP client left out is filled in: an id, `max_retry`, due and made now."""
    headers: Mapping[str, Any] = properties.headers or {}
    epoch, nonce = _copy_of(headers)
    created_ms = now_ms if properties.timestamp is None else int(properties.timestamp.timestamp() * 1_000)
    message_id = properties.message_id
    return Copy(
        topic=topic,
        id=message_id if message_id and valid_id(message_id) else str(ULID()),
        epoch=epoch,
        nonce=nonce,
        attempt=max(1, min(_whole(headers, "x-delay-attempt", 1), _MOST)),
        max_retry=min(_whole(headers, "x-delay-max-retry", max_retry), _MOST),
        due_ms=min(_whole(headers, "x-delay-due", now_ms), now_ms + MAX_DELAY_MS),
        expires_ms=min(_whole(headers, "x-delay-expires", 0), LATEST_INSTANT_MS),
        created_ms=created_ms,
        asked=_whole(headers, "x-delay-asked", 0),
        envelope=Envelope(
            content_type=properties.content_type or JSON_TYPE,
            headers={
                name: value
                for name, value in headers.items()
                if not name.startswith(OWN_PREFIX) and name not in _NEVER_PASSED_ON
            },
            body=body,
            properties=_kept(properties, headers),
        ),
    )


def _kept(properties: spec.Basic.Properties, headers: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name in KEPT_PROPERTIES if (value := getattr(properties, name, None)) is not None}
    priority = _whole(headers, "x-delay-priority", -1)
    return kept | {"priority": priority} if 0 <= priority <= 255 else kept


def as_refused(delivery: Delivery, reason: str) -> spec.Basic.Properties:
    """The properties of a message that is put aside: its own, and why."""
    properties = delivery.properties
    properties.headers = {**strip(properties.headers), "x-delay-reason": reason}
    properties.message_id = properties.message_id or str(ULID())
    # The broker refuses a user id that is not the connection's, and an expiration would lose the message.
    properties.delivery_mode, properties.user_id, properties.expiration = _PERSISTENT, None, None
    return properties


def _copy_of(headers: Mapping[str, Any]) -> tuple[int, int]:
    value = headers.get("x-delay-copy")
    known = _COPY.fullmatch(value) if isinstance(value, str) else None
    return (int(known[1]), int(known[2], 16)) if known else (0, 0)


def _whole(headers: Mapping[str, Any], name: str, default: int) -> int:
    value = headers.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
