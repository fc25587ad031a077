"""Reads messages whose delay is in a header, as RabbitMQ's delayed-message plugin takes them. Pure.

x-delay            milliseconds from now: a number, or digits as text or bytes; 0, a negative number or none: now
x-deliver-at       an instant in Unix milliseconds, in place of x-delay
x-delay-exchange, x-delay-routing-key    the target; without them the message goes to the topic in its routing key

Such a message came over one of three exchanges: `delay.in`; `delay.in.E`, the ingress of an exchange E, which is the
message's target; or `delay`, without a wheel key. The bridge drops other headers with the prefix `x-delay-`. So a
consumer may publish a delivery again with all its headers: those that the bridge had set do not count.
"""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from math import ceil, isfinite
from typing import Any, Final

import orjson

from bridge.broker.copies.copies import CLIENTS_ID, NEVER_RESTORED, OWN_PREFIX, PROPERTIES_AS_SENT, target_of
from bridge.broker.copies.properties import UNREADABLE, Message, Properties, deaths, latest_death
from bridge.model.durations import LATEST_INSTANT_MS, error_of_seconds, format_instant, looks_like_seconds
from bridge.model.fast_dataclass import fast_dataclass
from bridge.model.header_values import as_text
from bridge.model.message import Envelope, Target, id_of, is_path_step, valid_topic
from bridge.model.values import Draft
from topology.names import LONGEST_NAME, Names
from topology.wheel import MAX_DELAY_MS

DELAY: Final = "x-delay"
DELIVER_AT: Final = "x-deliver-at"
_MOST_DIGITS: Final = 20


@fast_dataclass(frozen=True, slots=True)
class Submission:
    """A message to accept. `tag`: the delivery tag. `original`: the message as it was delivered; the bridge puts it
    aside if it can't accept the message.

    `draft`: the message to send; it has no id if the client gave none. `again`: RabbitMQ may have delivered the message
    before. `fingerprint`: a digest of all that the client sent; equal messages have equal fingerprints.
    """

    tag: int
    original: Message
    draft: Draft
    again: bool
    fingerprint: str

    @property
    def topic(self) -> str:
        return self.draft.topic

    @property
    def message_id(self) -> str:
        """The id that the client gave; empty if it gave none."""
        return self.draft.id or ""

    @property
    def count(self) -> int:
        return 1


class Unacceptable(Exception):
    """The message can't be accepted. The text is for an operator."""


def is_submission(names: Names, message: Message) -> bool:
    """Whether a delivery at a checkpoint is a message whose delay is in a header: it has such a header, or came over an
    ingress exchange. Call this only for deliveries without a key of the wheel."""
    headers = message.properties.headers or {}
    exchange = message.exchange
    return (
        DELAY in headers
        or DELIVER_AT in headers
        or exchange == names.ingress
        or names.delayed_exchange(exchange) is not None
    )


def expired_in_ingress(names: Names, properties: Properties) -> bool:
    """Whether the message left the ingress queue because the client's `expiration` passed there."""
    death = latest_death(properties.headers)
    return death is not None and death[0] == names.ingress


def submission(names: Names, message: Message, *, now_ms: int) -> Submission:
    """Reads a delivery whose delay is in a header. `now_ms`: Unix ms.

    Raises:
        Unacceptable: a header, the target or the delay is not valid, or the properties can't be read.
        ValueError: `x-death` can't be read.
    """
    properties, routing_key = message.properties, message.routing_key
    headers = properties.headers or {}
    if UNREADABLE in headers:
        raise Unacceptable(f"the message's properties can't be read: {headers[UNREADABLE]!s}")
    if headers.get("CC"):
        raise Unacceptable("the header CC names further routing keys; publish one message for each of them")
    exchange, expiration, again = message.exchange, properties.expiration, message.redelivered
    if expired_in_ingress(names, properties):
        death = deaths(headers)[0]
        # A bridge may have accepted the message before it expired.
        exchange, expiration, again = death.exchange, death.original_expiration, True
    delay_ms, deliver_at_ms = _moment(headers, now_ms)
    topic, target = _destination(names, exchange, routing_key, headers)
    sent_with = {name: getattr(properties, name, None) for name in PROPERTIES_AS_SENT}
    sent_with |= {"expiration": expiration, "timestamp_ms": properties.timestamp_ms, "user_id": properties.user_id}
    kept = {name: value for name, value in sent_with.items() if value is not None}
    restored = {
        name: value for name, value in headers.items() if not name.startswith(OWN_PREFIX) and name not in NEVER_RESTORED
    }
    given_id = properties.message_id or ""
    written = {name: raw for name, raw in (properties.written or {}).items() if name in restored}
    sent = [exchange, routing_key, given_id, properties.content_type, restored, kept, sorted(written)]
    fingerprint = sha256(
        b"%b%b" % (orjson.dumps(sent, default=as_text, option=orjson.OPT_SORT_KEYS), message.body)
    ).hexdigest()[:32]
    if delay_ms:
        # As the plugin did: a consumer that publishes the message again causes no second delay.
        restored[DELAY] = -delay_ms
        written.pop(DELAY, None)
    message_id = id_of(given_id) if given_id else ""
    if message_id != given_id:
        restored[CLIENTS_ID] = given_id
    return Submission(
        tag=message.delivery_tag,
        original=message,
        draft=Draft(
            topic=topic,
            id=message_id or None,
            envelope=Envelope(
                content_type=properties.content_type or "",
                headers=restored,
                body=message.body,
                properties=kept,
                written=written,
                target=target,
            ),
            delay_ms=None if deliver_at_ms is not None else delay_ms,
            deliver_at_ms=deliver_at_ms,
        ),
        again=again,
        fingerprint=fingerprint,
    )


def _destination(names: Names, exchange: str, routing_key: str, headers: dict[str, Any]) -> tuple[str, Target | None]:
    """Returns the topic and the target; None: the message goes to the topic's ready queue."""
    delayed = names.delayed_exchange(exchange)
    if delayed is not None:
        return names.topic_of_exchange(delayed), Target(delayed, routing_key)
    if not valid_topic(routing_key) or is_path_step(routing_key):
        raise Unacceptable(
            f"the routing key {routing_key[:LONGEST_NAME]!r} is not a topic: it must be `topic` or `namespace/topic`, "
            "each 1 to 100 of A-Z a-z 0-9 _ . -, and neither `.` nor `..`"
        )
    try:
        target = target_of(headers, routing_key)
    except ValueError as error:
        raise Unacceptable(str(error)) from None
    if target is not None and (not target.exchange or names.owns_exchange(target.exchange)):
        raise Unacceptable(
            f"the header x-delay-exchange is {target.exchange!r}; it must be neither the default exchange nor one of"
            " the bridge's own"
        )
    return routing_key, target


def _moment(headers: dict[str, Any], now_ms: int) -> tuple[int, int | None]:
    """Returns the delay in ms, and the instant at which the message is due, in Unix ms. The instant is None if the
    header `x-deliver-at` is missing. Otherwise the delay is 0."""
    delay_ms, deliver_at_ms = _number(headers, DELAY), _number(headers, DELIVER_AT)
    if delay_ms is not None and delay_ms > MAX_DELAY_MS:
        raise Unacceptable(f"the header {DELAY} is {delay_ms}; it must be at most {MAX_DELAY_MS}, which is 999 days")
    delay_ms = max(0, delay_ms or 0)
    if deliver_at_ms is None:
        return delay_ms, None
    if delay_ms:
        raise Unacceptable(f"the headers {DELAY} and {DELIVER_AT} both say when it is due; give one of them")
    if looks_like_seconds(deliver_at_ms):
        raise Unacceptable(f"the header {DELIVER_AT} {error_of_seconds(deliver_at_ms)}")
    if deliver_at_ms > min(now_ms + MAX_DELAY_MS, LATEST_INSTANT_MS):
        raise Unacceptable(
            f"the header {DELIVER_AT} is {deliver_at_ms}; it must be at most 999 days ahead, now "
            f"{format_instant(now_ms + MAX_DELAY_MS)}"
        )
    return 0, max(0, deliver_at_ms)


def _number(headers: dict[str, Any], name: str) -> int | None:
    """Reads a whole number out of a header; None: there is no such header. Also reads floats, text and bytes, because
    some clients write numbers so."""
    value = headers.get(name)
    if isinstance(value, bytes):  # some clients write text as a byte array
        value = value.decode("latin-1")
    if value is None or type(value) is int:
        return value
    if isinstance(value, float | Decimal) and isfinite(value):
        return ceil(value)
    if isinstance(value, str) and value.isascii() and value.removeprefix("-").isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    raise Unacceptable(
        f"the header {name} is {value!r:.100}; it must be a number of milliseconds, or the digits of a"
        f" whole number, {_MOST_DIGITS} characters at most, as text or bytes"
    )
