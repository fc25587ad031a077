"""Defines the request bodies. An unknown field is refused. Null counts as not given, except in `body`."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from bridge.http.v1.headers import Headers
from bridge.http.v1.labels import GivenLabels
from bridge.http.v1.scalars import (
    Base64,
    Delay,
    ExchangeName,
    Instant,
    Lease,
    MediaType,
    MessageId,
    Reason,
    Retries,
    RoutingKey,
    Topic,
    Ttl,
    Wait,
    whole,
)
from bridge.model.message import JSON_TYPE

MAX_BATCH = 1_000


class Request(BaseModel):
    """The base of all request bodies and queries."""

    model_config = ConfigDict(extra="forbid")


def exclusive(*fields: str, message: str) -> PydanticCustomError:
    context = {"fields": list(fields), "limit": "exactly one", "message": message}
    return PydanticCustomError("exclusive", "{message}", context)


def one_of_delay_and_deliver_at(delay: int | None, deliver_at: int | None) -> None:
    """Refuses both and none, for a validator of a model."""
    if (delay is None) == (deliver_at is None):
        raise exclusive("delay", "deliver_at", message="give exactly one of delay and deliver_at")


class TargetRequest(Request):
    """An exchange of another application, to which the message goes when it is due. The default exchange and the
    bridge's own exchanges are refused."""

    exchange: ExchangeName
    routing_key: RoutingKey = ""


class SendRequest(Request):
    """A message to send. Give exactly one of `body` and `body_base64`. Give at most one of `delay` and `deliver_at`;
    with neither the message is due now."""

    body: Annotated[Any, Field(description="Any JSON value; with a text content type a string")] = None
    body_base64: Base64 | None = None
    content_type: MediaType | None = JSON_TYPE
    headers: Headers | None = None
    id: MessageId | None = None
    delay: Delay | None = None
    deliver_at: Instant | None = None
    ttl: Annotated[
        Ttl | None,
        Field(description="Time to live, counted from the due time; by default the topic's"),
    ] = None
    max_retry: Retries | None = None
    labels: Annotated[
        GivenLabels | None,
        Field(description="Up to four names with values, for searches. AMQP consumers do not get them"),
    ] = None
    to: Annotated[
        TargetRequest | None,
        Field(description="Where the message goes when it is due, in place of the topic's ready queue"),
    ] = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.delay is not None and self.deliver_at is not None:
            raise exclusive("delay", "deliver_at", message="give delay or deliver_at, not both")
        if ("body" in self.model_fields_set) == (self.body_base64 is not None):
            raise exclusive("body", "body_base64", message="give exactly one of body and body_base64")
        return self


class BatchRequest(Request):
    """1 to 1000 messages. Each is accepted or refused alone."""

    messages: Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)]


class MoveRequest(Request):
    """The new due time. Give exactly one of `delay`, counted from now (0: due now), and `deliver_at`."""

    delay: Delay | None = None
    deliver_at: Instant | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        one_of_delay_and_deliver_at(self.delay, self.deliver_at)
        return self


class PullRequest(Request):
    """`max`: the most messages to take. `wait`: how long to wait for the first. `lease`: how long the caller has to ack
    them; by default as long as the topic's policy says."""

    max: Annotated[int, Field(strict=True, ge=1, le=100), BeforeValidator(whole)] = 1
    wait: Wait | None = None
    lease: Lease | None = None


class PullManyRequest(PullRequest):
    """The same from several topics, the most urgent first."""

    topics: Annotated[list[Topic], Field(min_length=1, max_length=32)]


class AckManyRequest(Request):
    """Give exactly one of `receipts`, each good for its own lease, and `ids`, good from the first delivery on."""

    receipts: Annotated[list[StrictStr] | None, Field(min_length=1, max_length=1_000)] = None
    ids: Annotated[list[MessageId] | None, Field(min_length=1, max_length=1_000)] = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.receipts is None) == (self.ids is None):
            raise exclusive("receipts", "ids", message="give exactly one of receipts and ids")
        return self


class AckRequest(Request):
    """`receipt`: from the pull that leased the message. Without it, an ack works in any live state; a nack or an extend
    applies to the current lease."""

    receipt: StrictStr | None = None


class NackRequest(AckRequest):
    """`delay`: until the next delivery, instead of the topic's back-off. `reason`: kept with the message."""

    delay: Delay | None = None
    reason: Reason | None = None


class ExtendRequest(AckRequest):
    """`lease`: how long the lease lasts at least, from now."""

    lease: Lease


class ManyRequest(Request):
    """`max`: the most dead letters to replay."""

    max: Annotated[int, Field(strict=True, ge=1, le=1_000), BeforeValidator(whole)] = 100
