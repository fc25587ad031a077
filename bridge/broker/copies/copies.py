"""Converts a copy to the headers and properties of an AMQP message, and back. Pure.

message_id, content_type, timestamp     from the producer, or made by the bridge
x-delay-topic      the topic
x-delay-due        when this copy is due, in Unix ms
x-delay-attempt    the number of this delivery, from 1
x-delay-max-retry  retries after which the message is a dead letter; absent: as its topic's policy says
x-delay-copy       epoch and nonce, "3.1f0c…": they tell the copies of one message apart
x-delay-created    when the message was created, in Unix ms; `timestamp` has whole seconds
x-delay-expires    when the time to live ends, in Unix ms; absent: never
x-delay-asked      how often the checkpoint found the copy newer than its record; absent: never
x-delay-reason     in a dead letter: why the message is one
x-delay-due-at     in a dead letter: `x-delay-due` as people read it, RFC 3339 in UTC
x-delay-message-id the message_id that an AMQP client gave, if the message has another id
x-delay-id         in a message that was published to its target: the id; there message_id is as the client gave it
x-delay-exchange, x-delay-routing-key    the target, if there is one; not in a message that was published to its target
x-delay-expiration, x-delay-timestamp    properties that an AMQP client set, if it gave the delay in a header
x-delay-user-id    the user_id of such a client, which RabbitMQ had verified
x-delay-priority   in a copy in the wheel: the priority that an AMQP client set
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ulid import ULID

from bridge.broker.copies.properties import Properties
from bridge.model.durations import LATEST_INSTANT_MS, format_instant
from bridge.model.message import UNSET, Copy, Envelope, Target, id_of, valid_id
from topology.deaths import BROKER_HEADERS, HOLDING, strip
from topology.names import LONGEST_NAME
from topology.wheel import MAX_DELAY_MS

OWN_PREFIX = "x-delay-"
CLIENTS_ID = "x-delay-message-id"
_CREATED, _EXCHANGE, _ROUTING_KEY = "x-delay-created", "x-delay-exchange", "x-delay-routing-key"
# Headers never restored. CC and BCC of a producer would route a copy at once, without its delay. Only the broker writes
# deaths and counts. With `HOLDING`, a queue of RabbitMQ 4.4 would hold a copy a second time.
_ROUTING = {"CC": "x-delay-cc", "BCC": "x-delay-bcc"}  # and their names in `delay.refused`
NEVER_RESTORED = BROKER_HEADERS | {*_ROUTING, HOLDING}
_PERSISTENT = 2
# Epoch and nonce are numbers that Lua holds exactly. A header of another form was not written by a bridge.
_COPY = re.compile(r"([1-9][0-9]{0,14})\.([0-9a-f]{1,12})")
_MILLISECONDS = re.compile("[0-9]{1,10}")  # RabbitMQ refuses a longer expiration
# The largest number that is taken over from an AMQP client: larger ones fit no answer and no bundle.
_MOST = 2**31 - 1
# The broker refuses a longer expiration. A longer time to live is checked only when the message is pulled over HTTP.
LONGEST_EXPIRATION_MS = 2**32 - 1
PROPERTIES_AS_SENT = ("content_encoding", "priority", "correlation_id", "reply_to", "message_type", "app_id")
# These properties travel as headers: a slot would apply an expiration, and RabbitMQ refuses the user of another
# connection. The checkpoint makes them properties again.
_IN_HEADERS = {"expiration": "x-delay-expiration", "timestamp_ms": "x-delay-timestamp", "user_id": "x-delay-user-id"}
KEPT_PROPERTIES = (*PROPERTIES_AS_SENT, *_IN_HEADERS)


def to_properties(
    copy: Copy, *, parked: bool = False, live_for_ms: int = 0, reason: str = "", to_target: bool = False
) -> Properties:
    """Returns the properties to publish a copy with.

    `parked`: the copy goes into the wheel. `live_for_ms`: the rest of its time to live, in ms; 0: no end. `reason`: why
    the copy is a dead letter; empty: it is none. `to_target`: the copy goes to its target, where no bridge reads it
    again.
    """
    headers: dict[str, Any] = dict(copy.envelope.headers)
    properties = dict(copy.envelope.properties)
    if parked and (priority := properties.pop("priority", None)) is not None:
        headers["x-delay-priority"] = priority
    carried = {name: properties.pop(name) for name in _IN_HEADERS if name in properties}
    message_id = copy.id
    if to_target:
        headers["x-delay-id"] = copy.id
        message_id = clients_id(copy)
        headers.pop(CLIENTS_ID, None)
    elif copy.envelope.target is not None:
        headers[_EXCHANGE] = copy.envelope.target.exchange
        headers[_ROUTING_KEY] = copy.envelope.target.routing_key
    headers |= {
        header: carried[name]
        for name, header in _IN_HEADERS.items()
        if name in carried and (name == "user_id" or not to_target)
    }
    if not parked and not reason:
        live_for_ms = shorter(live_for_ms, carried.get("expiration"))
    headers["x-delay-topic"] = copy.topic
    headers["x-delay-due"] = copy.due_ms
    headers["x-delay-attempt"] = copy.attempt
    if copy.max_retry != UNSET:
        headers["x-delay-max-retry"] = copy.max_retry
    headers["x-delay-copy"] = f"{copy.epoch}.{copy.nonce:x}"
    headers[_CREATED] = copy.created_ms
    if copy.expires_ms:
        headers["x-delay-expires"] = copy.expires_ms
    if copy.asked:
        headers["x-delay-asked"] = copy.asked
    if reason:
        headers["x-delay-due-at"] = format_instant(copy.due_ms)
        headers["x-delay-reason"] = reason
    return Properties(
        **properties,
        message_id=message_id,
        content_type=copy.envelope.content_type or None,
        headers=headers,
        delivery_mode=_PERSISTENT,
        timestamp_ms=carried.get("timestamp_ms", copy.created_ms // 1_000 * 1_000),
        expiration=str(live_for_ms) if 0 < live_for_ms <= LONGEST_EXPIRATION_MS else None,
        written=copy.envelope.written,
    )


def clients_id(copy: Copy) -> str:
    """Returns the message_id that the sender gave. If the sender gave none, returns the message's id."""
    given = copy.envelope.headers.get(CLIENTS_ID)
    return given if isinstance(given, str) and given else copy.id


def from_properties(topic: str, properties: Properties, body: bytes, *, now_ms: int) -> Copy:
    """Returns the copy that a message in a queue of the topic holds. If an AMQP client left out the id, the copy gets a
    new id. If the client left out the due or creation moment, `now_ms` (Unix ms) takes its place."""
    headers: Mapping[str, Any] = properties.headers or {}
    epoch, nonce = _copy_of(headers)
    sent_ms = now_ms if properties.timestamp_ms is None else properties.timestamp_ms
    if epoch and properties.timestamp_ms is not None:
        # Earlier versions wrote the creation moment in whole seconds. A copy must not seem older than its record.
        sent_ms += 999
    given_id = properties.message_id or ""
    # Only a copy of a bridge can have an id like those of `aside_id`, for a dead letter whose id was taken.
    is_own = epoch > 0 and valid_id(given_id)
    message_id = given_id if is_own else id_of(given_id) if given_id else str(ULID())
    restored = {
        name: value for name, value in headers.items() if not name.startswith(OWN_PREFIX) and name not in NEVER_RESTORED
    }
    if clients_id := headers.get(CLIENTS_ID) if message_id == given_id else given_id:
        restored[CLIENTS_ID] = clients_id
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
        created_ms=min(_whole(headers, _CREATED, sent_ms), LATEST_INSTANT_MS),
        asked=_whole(headers, "x-delay-asked", 0),
        envelope=Envelope(
            content_type=properties.content_type or "",
            headers=restored,
            body=body,
            properties=_kept(properties, headers, of_bridge=epoch > 0),
            written={name: raw for name, raw in written.items() if name in restored},
            target=_target(headers),
        ),
    )


def created_ms(properties: Properties) -> int | None:
    """Returns when the message of these properties was created, in Unix ms; None if the headers do not say it."""
    moment = _whole(properties.headers or {}, _CREATED, -1)
    return moment if 0 <= moment <= LATEST_INSTANT_MS else None


def target_of(headers: Mapping[str, Any], routing_key: str = "") -> Target | None:
    """Reads the target of a message out of its headers. None: the message has no target. `routing_key`: the target's
    key if the headers name none.

    Raises:
        ValueError: a header is no text, or longer than `LONGEST_NAME`.
    """
    exchange, routing_key = headers.get(_EXCHANGE), headers.get(_ROUTING_KEY, routing_key)
    if exchange is None:
        return None
    for name, value in ((_EXCHANGE, exchange), (_ROUTING_KEY, routing_key)):
        if not isinstance(value, str) or len(value.encode()) > LONGEST_NAME:
            raise ValueError(f"the header {name} is {value!r:.300}; it must be a text of {LONGEST_NAME} bytes at most")
    return Target(exchange, routing_key)


def _target(headers: Mapping[str, Any]) -> Target | None:
    try:
        return target_of(headers)
    except ValueError:
        return None  # a client wrote it, as a bridge would not; only a checkpoint refuses a message


def shorter(live_for_ms: int, expiration: str | None) -> int:
    """Returns, in ms, the time to live of a message that is released now: the shorter of `live_for_ms` and
    `expiration`.

    `live_for_ms`: the rest of the message's time to live; 0: no end. `expiration`: the property that an AMQP client
    set, in ms; it counts from now; None: the client set none.
    """
    if expiration is None:
        return live_for_ms
    own_ms = max(1, int(expiration))  # RabbitMQ drops a message of 0 unless a consumer waits
    return min(live_for_ms, own_ms) if live_for_ms else own_ms


def _kept(properties: Properties, headers: Mapping[str, Any], *, of_bridge: bool) -> dict[str, Any]:
    kept = {name: value for name in PROPERTIES_AS_SENT if (value := getattr(properties, name, None)) is not None}
    priority = _whole(headers, "x-delay-priority", -1)
    if 0 <= priority <= 255:
        kept["priority"] = priority
    if of_bridge:
        expiration, user_id = headers.get("x-delay-expiration"), headers.get("x-delay-user-id")
        if isinstance(expiration, str) and _MILLISECONDS.fullmatch(expiration):
            kept["expiration"] = expiration
        if isinstance(user_id, str):
            kept["user_id"] = user_id
        if 0 <= (timestamp_ms := _whole(headers, "x-delay-timestamp", -1)) <= LATEST_INSTANT_MS:
            kept["timestamp_ms"] = timestamp_ms
    return kept


def as_refused(properties: Properties, reason: str) -> Properties:
    """Returns the properties with which a message is put aside: the message's properties, and the reason as a header.

    Renames the headers CC and BCC. Otherwise RabbitMQ would also route the message by them, with the bridge's rights.
    """
    kept = {_ROUTING.get(name, name): value for name, value in strip(properties.headers).items()}
    return replace(
        properties,
        headers={**kept, "x-delay-reason": reason},
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
