"""Converts a copy to the headers and properties of an AMQP message, and back. Pure.

message_id, content_type, timestamp     as the producer gave them, or made by the bridge
x-delay-topic      the topic
x-delay-due        when this copy is due, in Unix ms
x-delay-attempt    the number of this delivery, from 1
x-delay-max-retry  failed deliveries after which it is a dead letter; absent: as its topic's policy says
x-delay-copy       epoch and nonce, "3.1f0c…": they tell the copies of one message apart
x-delay-created    when the message was created, in Unix ms; `timestamp` has whole seconds
x-delay-expires    when its time to live ends, in Unix ms; absent: never
x-delay-asked      how often the checkpoint found it newer than its record; absent: never
x-delay-reason     in a dead letter: why it is one
x-delay-due-at     in a dead letter: `x-delay-due` as people read it, RFC 3339 in UTC
x-delay-message-id the message_id that an AMQP client gave, if it can't be an id and a digest of it is the id
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ulid import ULID

from bridge.broker.copies.properties import Properties
from bridge.model.durations import LATEST_INSTANT_MS, format_instant
from bridge.model.message import UNSET, Copy, Envelope, id_of
from topology.deaths import BROKER_HEADERS, strip
from topology.wheel import MAX_DELAY_MS

OWN_PREFIX = "x-delay-"
_CLIENTS_ID = "x-delay-message-id"
# CC and BCC of a producer would route a copy at once, without its delay. The broker alone writes deaths and counts.
NEVER_RESTORED = BROKER_HEADERS | {"CC", "BCC"}
_PERSISTENT = 2
# Epoch and nonce are numbers that Lua holds exactly: anything else is no copy of ours.
_COPY = re.compile(r"([1-9][0-9]{0,14})\.([0-9a-f]{1,12})")
# The largest number of an AMQP client that is taken over: larger ones fit no answer and no bundle.
_MOST = 2**31 - 1
# The broker refuses a longer expiration. A longer time to live is checked only when the message is pulled over HTTP.
LONGEST_EXPIRATION_MS = 2**32 - 1
KEPT_PROPERTIES = ("content_encoding", "priority", "correlation_id", "reply_to", "message_type", "app_id")


def to_properties(copy: Copy, *, parked: bool = False, live_for_ms: int = 0, reason: str = "") -> Properties:
    """Returns the properties to publish a copy with.

    `parked`: into the wheel. `live_for_ms`: what is left of its time to live, 0 for none. `reason`: why it is a dead
    letter.
    """
    headers: dict[str, Any] = dict(copy.envelope.headers)
    properties = dict(copy.envelope.properties)
    if parked and (priority := properties.pop("priority", None)) is not None:
        headers["x-delay-priority"] = priority
    headers["x-delay-topic"] = copy.topic
    headers["x-delay-due"] = copy.due_ms
    headers["x-delay-attempt"] = copy.attempt
    if copy.max_retry != UNSET:
        headers["x-delay-max-retry"] = copy.max_retry
    headers["x-delay-copy"] = f"{copy.epoch}.{copy.nonce:x}"
    headers["x-delay-created"] = copy.created_ms
    if copy.expires_ms:
        headers["x-delay-expires"] = copy.expires_ms
    if copy.asked:
        headers["x-delay-asked"] = copy.asked
    if reason:
        headers["x-delay-due-at"] = format_instant(copy.due_ms)
        headers["x-delay-reason"] = reason
    return Properties(
        **properties,
        message_id=copy.id,
        content_type=copy.envelope.content_type or None,
        headers=headers,
        delivery_mode=_PERSISTENT,
        timestamp_ms=copy.created_ms // 1_000 * 1_000,
        expiration=str(live_for_ms) if 0 < live_for_ms <= LONGEST_EXPIRATION_MS else None,
        written=copy.envelope.written,
    )


def from_properties(topic: str, properties: Properties, body: bytes, *, now_ms: int) -> Copy:
    """Reads a copy. Fills in what an AMQP client left out: an id, and `now_ms` for both moments."""
    headers: Mapping[str, Any] = properties.headers or {}
    epoch, nonce = _copy_of(headers)
    created_ms = now_ms if properties.timestamp_ms is None else properties.timestamp_ms
    given_id = properties.message_id or ""
    message_id = id_of(given_id) if given_id else str(ULID())
    restored = {
        name: value for name, value in headers.items() if not name.startswith(OWN_PREFIX) and name not in NEVER_RESTORED
    }
    if clients_id := headers.get(_CLIENTS_ID) if message_id == given_id else given_id:
        restored[_CLIENTS_ID] = clients_id
    written = properties.written or {}
    return Copy(
        topic=topic,
        id=message_id,
        epoch=epoch,
        nonce=nonce,
        attempt=max(1, min(_whole(headers, "x-delay-attempt", 1), _MOST)),
        max_retry=min(_whole(headers, "x-delay-max-retry", UNSET), _MOST),
        due_ms=min(_whole(headers, "x-delay-due", now_ms), now_ms + MAX_DELAY_MS),
        expires_ms=min(_whole(headers, "x-delay-expires", 0), LATEST_INSTANT_MS),
        created_ms=min(_whole(headers, "x-delay-created", created_ms), LATEST_INSTANT_MS),
        asked=_whole(headers, "x-delay-asked", 0),
        envelope=Envelope(
            content_type=properties.content_type or "",
            headers=restored,
            body=body,
            properties=_kept(properties, headers),
            written={name: raw for name, raw in written.items() if name in restored},
        ),
    )


def _kept(properties: Properties, headers: Mapping[str, Any]) -> dict[str, Any]:
    kept = {name: value for name in KEPT_PROPERTIES if (value := getattr(properties, name, None)) is not None}
    priority = _whole(headers, "x-delay-priority", -1)
    return kept | {"priority": priority} if 0 <= priority <= 255 else kept


def as_refused(properties: Properties, reason: str) -> Properties:
    """Returns the properties with which a message is put aside: its own, and the reason."""
    return replace(
        properties,
        headers={**strip(properties.headers), "x-delay-reason": reason},
        message_id=properties.message_id or str(ULID()),
        delivery_mode=_PERSISTENT,
        # The broker refuses a user id that is not the connection's, and an expiration would lose the message.
        user_id=None,
        expiration=None,
    )


def _copy_of(headers: Mapping[str, Any]) -> tuple[int, int]:
    value = headers.get("x-delay-copy")
    match = _COPY.fullmatch(value) if isinstance(value, str) else None
    return (int(match[1]), int(match[2], 16)) if match else (0, 0)


def _whole(headers: Mapping[str, Any], name: str, default: int) -> int:
    value = headers.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default
