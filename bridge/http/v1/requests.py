"""What callers send in bodies. An unknown field is refused; null is as good as not given (but in `body`)."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictStr, model_validator
from pydantic_core import PydanticCustomError

from bridge.http.v1.headers import Headers
from bridge.http.v1.scalars import (
    Base64,
    Delay,
    Instant,
    Lease,
    MediaType,
    MessageId,
    Reason,
    Retries,
    Topic,
    Ttl,
    Wait,
    whole,
)
from bridge.model.message import JSON_TYPE

MAX_BATCH = 1_000


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


def _exclusive(*fields: str, message: str) -> PydanticCustomError:
    context = {"fields": list(fields), "limit": "exactly one", "message": message}
    return PydanticCustomError("exclusive", "{message}", context)


class SendRequest(Request):
    """Exactly one of `body` and `body_base64`; at most one of `delay` and `deliver_at`, and neither is now."""

    body: Annotated[Any, Field(description="any JSON value, or a string with a text type")] = None
    body_base64: Base64 | None = None
    content_type: MediaType | None = JSON_TYPE
    headers: Headers | None = None
    id: MessageId | None = None
    delay: Delay | None = None
    deliver_at: Instant | None = None
    ttl: Annotated[Ttl | None, Field(description="counted from the due moment")] = None
    max_retry: Retries | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if self.delay is not None and self.deliver_at is not None:
            raise _exclusive("delay", "deliver_at", message="give delay or deliver_at, not both")
        if ("body" in self.model_fields_set) == (self.body_base64 is not None):
            raise _exclusive("body", "body_base64", message="give exactly one of body and body_base64")
        return self


class BatchRequest(Request):
    """Up to 1000 messages, each checked by itself."""

    messages: Annotated[list[Any], Field(min_length=1, max_length=MAX_BATCH)]


class MoveRequest(Request):
    """When the message is to come instead: `delay` counts from now, and 0 is "run now"."""

    delay: Delay | None = None
    deliver_at: Instant | None = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.delay is None) == (self.deliver_at is None):
            raise _exclusive("delay", "deliver_at", message="give exactly one of delay and deliver_at")
        return self


class PullRequest(Request):
    """How many to take at most, how long to wait for the first, and how long to have them (default: the topic's)."""

    max: Annotated[int, Field(strict=True, ge=1, le=100), BeforeValidator(whole)] = 1
    wait: Wait | None = None
    lease: Lease | None = None


class PullManyRequest(PullRequest):
    """The same from several topics: a later one is asked only for what earlier ones do not have."""

    topics: Annotated[list[Topic], Field(min_length=1, max_length=32)]


class AckManyRequest(Request):
    """Exactly one of the two; ids ack whatever is live, receipts only the lease they were given for."""

    receipts: Annotated[list[StrictStr] | None, Field(min_length=1, max_length=1_000)] = None
    ids: Annotated[list[MessageId] | None, Field(min_length=1, max_length=1_000)] = None

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.receipts is None) == (self.ids is None):
            raise _exclusive("receipts", "ids", message="give exactly one of receipts and ids")
        return self


class AckRequest(Request):
    receipt: StrictStr | None = None


class NackRequest(AckRequest):
    """`delay`: until the next delivery, in place of the topic's back-off."""

    delay: Delay | None = None
    reason: Reason | None = None


class ExtendRequest(AckRequest):
    """`lease`: from now."""

    lease: Lease


class ManyRequest(Request):
    """How many dead letters at most."""

    max: Annotated[int, Field(strict=True, ge=1, le=1_000), BeforeValidator(whole)] = 100
