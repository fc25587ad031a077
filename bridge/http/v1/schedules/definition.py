"""Defines a schedule as clients write it."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final, Literal, Self
from zoneinfo import available_timezones

from pydantic import BeforeValidator, Field, PlainValidator, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from bridge.http.v1.contract.content import envelope_of
from bridge.http.v1.contract.headers import Headers
from bridge.http.v1.contract.labels import GivenLabels
from bridge.http.v1.contract.requests import Request, TargetRequest, exclusive
from bridge.http.v1.contract.scalars import (
    Base64,
    Instant,
    MediaType,
    Retries,
    Topic,
    Ttl,
    duration,
    duration_schema,
    refused,
    whole,
    whole_number,
)
from bridge.model.errors import InvalidRequest
from bridge.model.labels import NO_LABELS, packed
from bridge.model.message import JSON_TYPE
from bridge.model.values import MAX_DELAY_MS
from bridge.service.schedules import cron
from bridge.service.schedules.definition import MAX_TEMPLATE, Spec, Template, template_json
from bridge.service.schedules.ticks import MOST_MISSED, Missed, Overlap, Rules
from bridge.service.schedules.timing import UTC_NAME, Timing

SHOWN_TICKS: Final = 5
_MOST_NEXT: Final = 100
_HOUR_MS: Final = 3_600_000
_ZONE_FORM: Final = "an IANA time zone, such as Europe/Vienna"
_CRON_FORM: Final = (
    "minute, hour, day of the month, month, day of the week, as in crontab: */5 * * * *; or @daily and its kin"
)
_LONGEST_CRON: Final = 200


def _cron(value: Any) -> str:
    if not isinstance(value, str) or len(value) > _LONGEST_CRON:
        raise refused(_CRON_FORM, f"must be a text of at most {_LONGEST_CRON} characters: {_CRON_FORM}")
    expression = cron.written_out(value)
    try:
        cron.check(expression)
    except ValueError as error:
        raise refused(_CRON_FORM, str(error)) from None
    return " ".join(expression.split())


def _zone(value: Any) -> str:
    if isinstance(value, str) and value in _zones():
        return value
    raise refused(_ZONE_FORM, f"must be {_ZONE_FORM}")


def _together(*fields: str, limit: Any, message: str) -> PydanticCustomError:
    """Returns the error for fields that do not fit together."""
    context = {"fields": list(fields), "limit": limit, "message": message}
    return PydanticCustomError("together", "{message}", context)


@cache
def _zones() -> frozenset[str]:
    # `localtime` and `Factory` are no zones: one is the clock of a machine, one stands for a zone that nobody has set.
    return frozenset(available_timezones()) - {"localtime", "Factory"}


_Cron = Annotated[
    str,
    PlainValidator(_cron),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": _LONGEST_CRON,
            "pattern": r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\S+(\s+\S+){4})$",
        }
    ),
]
_Zone = Annotated[str, PlainValidator(_zone), WithJsonSchema({"type": "string", "pattern": "^[A-Za-z0-9_+/-]{1,64}$"})]
_Every = Annotated[
    int, PlainValidator(duration(1_000, MAX_DELAY_MS, "1 s", "999 days")), duration_schema(1_000, MAX_DELAY_MS)
]
_Jitter = Annotated[int, PlainValidator(duration(0, _HOUR_MS, "0", "1 h")), duration_schema(0, _HOUR_MS)]


class TemplateRequest(Request):
    """The message of each tick. Give exactly one of `body` and `body_base64`."""

    body: Annotated[Any, Field(description="Any JSON value; with a text content type a string")] = None
    body_base64: Base64 | None = None
    content_type: MediaType | None = JSON_TYPE
    headers: Headers | None = None
    ttl: Annotated[Ttl | None, Field(description="Time to live, counted from the due time")] = None
    max_retry: Retries | None = None
    labels: GivenLabels | None = None
    to: Annotated[
        TargetRequest | None, Field(description="Where each message goes, in place of the topic's ready queue")
    ] = None

    @model_validator(mode="after")
    def _one_body(self) -> Self:
        if ("body" in self.model_fields_set) == (self.body_base64 is not None):
            raise exclusive("body", "body_base64", message="give exactly one of body and body_base64")
        return self


class ScheduleRequest(Request):
    """The whole schedule. Give exactly one of `cron` and `every`."""

    topic: Topic
    message: TemplateRequest
    cron: Annotated[_Cron | None, Field(description=f"When it ticks: {_CRON_FORM}")] = None
    timezone: Annotated[_Zone | None, Field(description=f"Of `cron`: {_ZONE_FORM}. Without it: UTC")] = None
    every: Annotated[_Every | None, Field(description="How far its ticks are apart, at least a second")] = None
    anchor: Annotated[
        Instant | None,
        Field(description="One of the ticks of `every`. Without it: `start`, or the beginning of 1970 in UTC"),
    ] = None
    start: Annotated[Instant | None, Field(description="No tick comes before it")] = None
    end: Annotated[Instant | None, Field(description="No tick comes after it")] = None
    jitter: Annotated[_Jitter, Field(description="Each message is due later by up to so much")] = 0
    missed: Annotated[
        Literal["skip", "last", "all"], Field(description="What becomes of ticks that nobody sent in time")
    ] = "last"
    missed_max: Annotated[
        int,
        Field(strict=True, ge=1, le=MOST_MISSED, description="With `all`: the most of them, the latest"),
        BeforeValidator(whole),
    ] = 100
    overlap: Annotated[
        Literal["allow", "skip"],
        Field(description="`skip`: no tick while the message of the former one has not ended"),
    ] = "allow"

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.cron is None) == (self.every is None):
            raise exclusive("cron", "every", message="give exactly one of cron and every")
        if self.timezone is not None and self.cron is None:
            raise _together("timezone", limit="with cron alone", message="is for `cron`: `every` counts real time")
        if self.anchor is not None and self.every is None:
            raise _together("anchor", limit="with every alone", message="is for `every`: `cron` names its moments")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise _together("start", "end", limit="start <= end", message="the end must not be before the start")
        if self.every is not None and self.jitter > self.every:
            raise _together("jitter", limit=self.every, message="must not be longer than `every`")
        return self

    def spec(self, max_body_bytes: int) -> Spec:
        """Returns the schedule's spec that the request asks for.

        Raises:
            InvalidRequest: the message is too large, or its body does not fit its content type.
            TooLarge: the body has more than `max_body_bytes`.
        """
        template = Template(
            envelope=envelope_of(self.message, max_body_bytes),
            ttl_ms=self.message.ttl,
            max_retry=self.message.max_retry,
            labels=packed(self.message.labels or NO_LABELS),
        )
        if (size := len(template_json(template))) > MAX_TEMPLATE:
            text = f"takes {size} bytes with its headers, in base64; at most {MAX_TEMPLATE} are kept"
            raise InvalidRequest.of("message", None, MAX_TEMPLATE, text)
        anchor = self.anchor if self.anchor is not None else self.start
        timing = Timing(
            cron=self.cron,
            timezone=self.timezone or UTC_NAME,
            every_ms=self.every or 0,
            anchor_ms=anchor or 0 if self.every else 0,
            start_ms=self.start,
            end_ms=self.end,
            jitter_ms=self.jitter,
        )
        rules = Rules(missed=Missed(self.missed), missed_max=self.missed_max, overlap=Overlap(self.overlap))
        return Spec(topic=self.topic, timing=timing, rules=rules, template=template)


class BackfillRequest(Request):
    """The time whose ticks are to be sent. Both ends belong to it."""

    from_: Annotated[Instant, Field(alias="from")]
    to: Instant


class NextQuery(Request):
    count: Annotated[
        int,
        BeforeValidator(whole_number),
        Field(strict=True, ge=1, le=_MOST_NEXT, description="How many ticks"),
        WithJsonSchema({"type": "integer", "minimum": 1, "maximum": _MOST_NEXT}),
    ] = SHOWN_TICKS
