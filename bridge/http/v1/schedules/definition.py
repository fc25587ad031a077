"""Defines the form in which clients write a schedule."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, Final
from zoneinfo import available_timezones

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from bridge.http.structs import Refused, Request, Scalar, default
from bridge.http.v1.contract.content import envelope_of
from bridge.http.v1.contract.headers import Headers
from bridge.http.v1.contract.labels import GivenLabels
from bridge.http.v1.contract.requests import TargetRequest, exclusive
from bridge.http.v1.contract.scalars import (
    Base64,
    Count,
    Duration,
    Instant,
    MediaType,
    Number,
    Retries,
    Topic,
    Ttl,
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


class _Cron(str, metaclass=Scalar):
    @classmethod
    def read(cls, value: Any) -> Any:
        if not isinstance(value, str) or len(value) > _LONGEST_CRON:
            raise Refused(_CRON_FORM, f"must be a text of at most {_LONGEST_CRON} characters: {_CRON_FORM}")
        expression = cron.written_out(value)
        try:
            cron.check(expression)
        except ValueError as error:
            raise Refused(_CRON_FORM, str(error)) from None
        return " ".join(expression.split())

    @classmethod
    def schema(cls) -> dict[str, Any]:
        pattern = r"^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|\S+(\s+\S+){4})$"
        return {"type": "string", "maxLength": _LONGEST_CRON, "pattern": pattern}


class _Zone(str, metaclass=Scalar):
    @classmethod
    def read(cls, value: Any) -> Any:
        if isinstance(value, str) and value in _zones():
            return value
        raise Refused(_ZONE_FORM, f"must be {_ZONE_FORM}")

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": "^[A-Za-z0-9_+/-]{1,64}$"}


@cache
def _zones() -> frozenset[str]:
    # `localtime` and `Factory` are no zones: one is the clock of a machine, one stands for a zone that nobody has set.
    return frozenset(available_timezones()) - {"localtime", "Factory"}


class _Every(Duration):
    least = (1_000, "1 s")
    most = (MAX_DELAY_MS, "999 days")


class _Jitter(Duration):
    least = (0, "0")
    most = (_HOUR_MS, "1 h")


class _MostMissed(Number):
    least = 1
    most = MOST_MISSED


class _Next(Count):
    most = _MOST_NEXT


class TemplateRequest(Request):
    """The message of each tick. Give exactly one of `body` and `body_base64`."""

    body: Annotated[Raw | UnsetType, Meta(description="Any JSON value; with a text content type a string")] = UNSET
    body_base64: Base64 | None = None
    content_type: MediaType | None = JSON_TYPE
    headers: Headers | None = None
    ttl: Annotated[Ttl | None, Meta(description="Time to live, counted from the due time")] = None
    max_retry: Retries | None = None
    labels: GivenLabels | None = None
    to: Annotated[
        TargetRequest | None, Meta(description="Where each message goes, in place of the topic's ready queue")
    ] = None

    def __post_init__(self) -> None:
        if (self.body is UNSET) == (self.body_base64 is None):
            raise exclusive("body", "body_base64", message="give exactly one of body and body_base64")


class ScheduleRequest(Request):
    """The whole schedule. Give exactly one of `cron` and `every`."""

    topic: Topic
    message: TemplateRequest
    cron: Annotated[_Cron | None, Meta(description=f"When it ticks: {_CRON_FORM}")] = None
    timezone: Annotated[_Zone | None, Meta(description=f"Of `cron`: {_ZONE_FORM}. Without it: UTC")] = None
    every: Annotated[_Every | None, Meta(description="How far its ticks are apart, at least a second")] = None
    anchor: Annotated[
        Instant | None,
        Meta(description="One of the ticks of `every`. Without it: `start`, or the beginning of 1970 in UTC"),
    ] = None
    start: Annotated[Instant | None, Meta(description="No tick comes before it")] = None
    end: Annotated[Instant | None, Meta(description="No tick comes after it")] = None
    jitter: Annotated[_Jitter, Meta(description="Each message is due later by up to so much")] = default(0)
    missed: Annotated[Missed, Meta(description="What becomes of ticks that nobody sent in time")] = Missed.LAST
    missed_max: Annotated[_MostMissed, Meta(description="With `all`: the most of them, the latest")] = default(100)
    overlap: Annotated[
        Overlap, Meta(description="`skip`: no tick while the message of the previous tick has not ended")
    ] = Overlap.ALLOW

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every is None):
            raise exclusive("cron", "every", message="give exactly one of cron and every")
        if self.timezone is not None and self.cron is None:
            raise Refused("with cron alone", "is for `cron`: `every` counts real time", "timezone")
        if self.anchor is not None and self.every is None:
            raise Refused("with every alone", "is for `every`: `cron` names its moments", "anchor")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise Refused("start <= end", "the end must not be before the start", "start", "end")
        if self.every is not None and self.jitter > self.every:
            raise Refused(self.every, "must not be longer than `every`", "jitter")

    def spec(self, max_body_bytes: int) -> Spec:
        """Returns the schedule that the request asks for, as a `Spec`.

        Raises:
            InvalidRequest: the body does not fit its content type; or body and headers, in base64, have more than
                `MAX_TEMPLATE` bytes.
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
        rules = Rules(missed=self.missed, missed_max=self.missed_max, overlap=self.overlap)
        return Spec(topic=self.topic, timing=timing, rules=rules, template=template)


class BackfillRequest(Request):
    """The period whose ticks are to be sent, both ends included."""

    from_: Instant = msgspec.field(name="from")
    to: Instant = msgspec.field()


class NextQuery(Request):
    count: Annotated[_Next, Meta(description="How many ticks")] = default(SHOWN_TICKS)
