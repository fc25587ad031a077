"""Defines the request bodies. An unknown field is refused. Null counts as not given, except in `body`."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Raw, UnsetType

from bridge.http.structs import Refused, Request, default
from bridge.http.v1.contract.headers import Headers
from bridge.http.v1.contract.labels import GivenLabels
from bridge.http.v1.contract.scalars import (
    Base64,
    Delay,
    DueInstant,
    ExchangeName,
    Lease,
    MediaType,
    MessageId,
    NewId,
    Number,
    Reason,
    Retries,
    RoutingKey,
    Topic,
    Ttl,
    Wait,
)
from bridge.model.labels import NO_LABELS, packed
from bridge.model.message import JSON_TYPE, Envelope
from bridge.model.values import Draft, IfExists, Nack

MAX_BATCH = 1_000
MAX_ACKS = 1_000
MAX_NACKS = 100  # each publishes a message


def exclusive(*fields: str, message: str) -> Refused:
    return Refused("exactly one", message, *fields)


def one_of_delay_and_deliver_at(delay: int | None, deliver_at: int | None) -> None:
    """Checks that exactly one of the two is given, and raises Refused otherwise. None: not given."""
    if (delay is None) == (deliver_at is None):
        raise exclusive("delay", "deliver_at", message="give exactly one of delay and deliver_at")


class TargetRequest(Request):
    """An exchange of another application, to which the message goes when it is due. The default exchange and the
    bridge's own exchanges are refused."""

    exchange: ExchangeName
    routing_key: RoutingKey = default("")


def not_both(delay: int | None, deliver_at: int | None) -> None:
    """Checks that at most one of the two is given, and raises Refused otherwise. None: not given."""
    if delay is not None and deliver_at is not None:
        raise exclusive("delay", "deliver_at", message="give delay or deliver_at, not both")


class SendRequest(Request):
    """A message to send. Give exactly one of `body` and `body_base64`. Give at most one of `delay` and `deliver_at`;
    with neither the message is due now."""

    body: Annotated[Raw | UnsetType, Meta(description="Any JSON value; with a text content type a string")] = UNSET
    body_base64: Base64 | None = None
    content_type: MediaType | None = JSON_TYPE
    headers: Headers | None = None
    id: NewId | None = None
    delay: Delay | None = None
    deliver_at: DueInstant | None = None
    ttl: Annotated[
        Ttl | None,
        Meta(description="Time to live, counted from the due time; by default the topic's"),
    ] = None
    max_retry: Retries | None = None
    labels: Annotated[
        GivenLabels | None,
        Meta(description="Up to four names with values, for searches. AMQP consumers do not get them"),
    ] = None
    to: Annotated[
        TargetRequest | None,
        Meta(description="Where the message goes when it is due, in place of the topic's ready queue"),
    ] = None
    if_exists: Annotated[
        Literal["keep", "replace", "extend", "error"] | None,
        Meta(
            description="What to do if a live message has the id. `keep`: answer with it. `replace`: send this one in "
            "its place. `extend`: give it this content, and a later due time, within `max_wait`. `error`: answer 409. "
            "By default: answer with it if it has this body, content type and `to`, else 422"
        ),
    ] = None
    max_wait: Annotated[
        Ttl | None,
        Meta(description="With `extend`: the longest time from the first send to the due time"),
    ] = None

    def __post_init__(self) -> None:
        not_both(self.delay, self.deliver_at)
        if (self.body is UNSET) == (self.body_base64 is None):
            raise exclusive("body", "body_base64", message="give exactly one of body and body_base64")
        if self.if_exists is not None and self.id is None:
            raise Refused("a string", "give the id that if_exists is about", "id")
        if (self.if_exists == "extend") != (self.max_wait is not None):
            raise Refused("only with extend", "give max_wait with if_exists extend, and only then", "max_wait")
        if self.max_wait is not None and self.max_wait < (self.delay or 0):
            raise Refused(self.delay, "must be at least the delay", "max_wait")

    def draft(self, topic: str, envelope: Envelope) -> Draft:
        """Returns the message to send. `envelope`: its content, which `content.envelope_of` reads from this request."""
        return Draft(
            topic=topic,
            envelope=envelope,
            id=self.id,
            delay_ms=self.delay,
            deliver_at_ms=self.deliver_at,
            ttl_ms=self.ttl,
            max_retry=self.max_retry,
            labels=packed(self.labels or NO_LABELS),
            if_exists=IfExists(self.if_exists or IfExists.SAME),
            max_wait_ms=self.max_wait,
        )


class BatchRequest(Request):
    """1 to 1000 messages. Each is accepted or refused independently of the others."""

    messages: Annotated[list[Raw], Meta(min_length=1, max_length=MAX_BATCH)]


class ChangeRequest(Request):
    """A change of a message. A field that is not given stays unchanged. Give at most one of `delay`, counted from now
    (0: due now), and `deliver_at`, and at most one of `body` and `body_base64`. `headers` and `labels` replace all
    headers and labels of the message."""

    body: Annotated[Raw | UnsetType, Meta(description="Any JSON value; with a text content type a string")] = UNSET
    body_base64: Base64 | None = None
    content_type: MediaType | None = None
    headers: Headers | None = None
    delay: Delay | None = None
    deliver_at: DueInstant | None = None
    ttl: Annotated[Ttl | None, Meta(description="Time to live, counted from the due time")] = None
    max_retry: Retries | None = None
    labels: GivenLabels | None = None

    @property
    def has_body(self) -> bool:
        return self.body is not UNSET or self.body_base64 is not None

    @property
    def has_content(self) -> bool:
        return self.has_body or self.content_type is not None or self.headers is not None

    def __post_init__(self) -> None:
        not_both(self.delay, self.deliver_at)
        if self.body is not UNSET and self.body_base64 is not None:
            raise exclusive("body", "body_base64", message="give body or body_base64, not both")
        given = (self.delay, self.deliver_at, self.ttl, self.max_retry, self.labels)
        if not self.has_content and all(value is None for value in given):
            raise Refused(list(self.__struct_fields__), "give at least one field to change")


class _MostPulled(Number):
    least = 1
    most = 100


class _Pull(Request):
    max: _MostPulled = default(1)
    wait: Wait | None = None
    lease: Lease | None = None


class NackItem(Request):
    """A nack beside a pull. `receipt`: from the pull that leased the message. `delay`, `reason`: as in a nack of one
    message."""

    receipt: str
    delay: Delay | None = None
    reason: Reason | None = None

    def nack(self) -> Nack:
        return Nack(receipt=self.receipt, delay_ms=self.delay, reason=self.reason)


class PullRequest(_Pull):
    """A pull of ready messages. `max`: the most messages to take. `wait`: how long to wait for the first. `lease`: the
    time in which the caller must ack the messages; by default, the time that the topic's policy sets. `ack`: receipts
    of earlier messages to ack. `nack`: earlier messages to give back."""

    ack: Annotated[list[str], Meta(max_length=MAX_ACKS)] | None = None
    nack: Annotated[list[NackItem], Meta(max_length=MAX_NACKS)] | None = None


class AckOfTopic(Request):
    """An ack beside a pull from several topics."""

    topic: Topic
    receipt: str


class NackOfTopic(NackItem, kw_only=True):
    """A nack beside a pull from several topics."""

    topic: Topic


class PullManyRequest(_Pull, kw_only=True):
    """A pull from several topics. `topics`: the most urgent first. `ack`, `nack`: earlier messages of these topics, as
    a receipt does not name its topic. The other fields are as in a pull from one topic."""

    topics: Annotated[list[Topic], Meta(min_length=1, max_length=32)]
    ack: Annotated[list[AckOfTopic], Meta(max_length=MAX_ACKS)] | None = None
    nack: Annotated[list[NackOfTopic], Meta(max_length=MAX_NACKS)] | None = None

    def __post_init__(self) -> None:
        given = {"ack": [item.topic for item in self.ack or ()], "nack": [item.topic for item in self.nack or ()]}
        for field, topics in given.items():
            for at, topic in enumerate(topics):
                if topic not in self.topics:
                    raise Refused(self.topics, "must be one of the topics of this pull", f"{field}.{at}.topic")


class AckManyRequest(Request):
    """An ack of several messages. Give exactly one of `receipts` and `ids`. A receipt acks only its own lease. An id
    acks the live message, leased or not, if a consumer may have received it."""

    receipts: Annotated[list[str], Meta(min_length=1, max_length=MAX_ACKS)] | None = None
    ids: Annotated[list[MessageId], Meta(min_length=1, max_length=MAX_ACKS)] | None = None

    def __post_init__(self) -> None:
        if (self.receipts is None) == (self.ids is None):
            raise exclusive("receipts", "ids", message="give exactly one of receipts and ids")


class AckRequest(Request):
    """The lease that a call settles or extends. `receipt`: from the pull that leased the message. Without it, an ack
    applies to the live message, leased or not, if a consumer may have received it. A nack or an extend applies to the
    current lease."""

    receipt: str | None = None


class NackRequest(AckRequest):
    """A nack of a leased message. `delay`: the time until the next delivery, instead of the topic's back-off. `reason`:
    why the consumer could not process the message; the bridge keeps it with the message."""

    delay: Delay | None = None
    reason: Reason | None = None


class ExtendRequest(AckRequest, kw_only=True):
    """A request to extend a lease. `lease`: how long the lease lasts at least, from now."""

    lease: Lease


class _MostLetters(Number):
    least = 1
    most = 1_000


class ManyRequest(Request):
    """A request to replay dead letters. `max`: how many at most."""

    max: _MostLetters = default(100)
