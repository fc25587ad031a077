"""Defines the scalar types of requests: names, durations and instants in milliseconds, media types, numbers, texts."""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache
from time import time
from typing import Annotated, Any, ClassVar, Final

from msgspec import Meta

from bridge.http.structs import Refused, Scalar
from bridge.model.durations import (
    DURATION_FORMS,
    DURATION_PATTERN,
    INSTANT_FORMS,
    check_not_past,
    parse_duration_ms,
    parse_instant_ms,
)
from bridge.model.message import (
    ID_PATTERN,
    LONGEST_NAME,
    NEW_ID_PATTERN,
    TOPIC_PATTERN,
    is_path_step,
    may_be_sent,
    valid_id,
    valid_topic,
)
from bridge.model.values import LARGEST_BODY, MAX_DELAY_MS

ID_FORM = 'must be 1-200 printable ASCII characters without "/"'
TOPIC_FORM = "must be a name or namespace/name, each of 1-100 characters from A-Z a-z 0-9 _ . -"
SCHEDULE_FORM = "must be 1-100 characters from A-Z a-z 0-9 _ . -"
PATH_STEP: Final = 'must be neither "." nor "..": clients and proxies take these for steps in a path'
MAX_RETRIES = 10_000
_HOUR_MS = 3_600_000
_OFFSET = re.compile(r" (\d\d:\d\d)$")
_WHOLE = re.compile(r"-?[0-9]{1,64}")
_TOKEN = r"[A-Za-z0-9!#$&^_.+*'|~-]+"
MEDIA_TYPE_PATTERN = rf'^{_TOKEN}/{_TOKEN}([ \t]*;[ \t]*{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*$'


class Topic(str, metaclass=Scalar):
    """A topic's name."""

    @classmethod
    def read(cls, value: Any) -> Any:
        if not isinstance(value, str) or not valid_topic(value):
            raise Refused(TOPIC_PATTERN, TOPIC_FORM)
        return _no_step(value)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": TOPIC_PATTERN}


class MessageId(str, metaclass=Scalar):
    """The id of an existing message: 1-200 printable ASCII characters without "/", and perhaps a suffix of the
    bridge."""

    @classmethod
    def read(cls, value: Any) -> Any:
        if not isinstance(value, str) or not valid_id(value):
            raise Refused(ID_FORM.removeprefix("must be "), ID_FORM)
        return value

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": ID_PATTERN}


class NewId(str, metaclass=Scalar):
    """The id that a client gives to a new message: 1-200 printable ASCII characters without "/"."""

    @classmethod
    def read(cls, value: Any) -> Any:
        if not isinstance(value, str) or not may_be_sent(value):
            raise Refused(ID_FORM.removeprefix("must be "), ID_FORM)
        return _no_step(value)

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "pattern": NEW_ID_PATTERN}


def _no_step(name: str) -> str:
    if is_path_step(name):
        raise Refused(PATH_STEP.removeprefix("must be "), PATH_STEP)
    return name


class Duration(int, metaclass=Scalar):
    """A duration in milliseconds. `least` and `most`: the limits, each in milliseconds and as error messages show
    it."""

    least: ClassVar[tuple[int, str]]
    most: ClassVar[tuple[int, str]]

    @classmethod
    def read(cls, value: Any) -> Any:
        try:
            duration_ms = _duration_ms(value) if type(value) is str else parse_duration_ms(whole(value))
        except ValueError as error:
            raise Refused(DURATION_FORMS, str(error)) from None
        if duration_ms < cls.least[0]:
            raise Refused(cls.least[0], f"must be at least {cls.least[1]} ({cls.least[0]} ms)")
        if duration_ms > cls.most[0]:
            raise Refused(cls.most[0], f"must be at most {cls.most[1]} ({cls.most[0]} ms)")
        return duration_ms

    @classmethod
    def schema(cls) -> dict[str, Any]:
        text = {"type": "string", "maxLength": 64, "pattern": DURATION_PATTERN}
        forms = [{"type": "integer", "minimum": cls.least[0], "maximum": cls.most[0]}, text]
        return {"anyOf": forms, "description": f"A duration: {DURATION_FORMS}"}


_duration_ms = lru_cache(maxsize=1_024)(parse_duration_ms)


class Delay(Duration):
    least = (0, "0")
    most = (MAX_DELAY_MS, "999 days")


class Ttl(Duration):
    least = (1, "1 ms")
    most = (MAX_DELAY_MS, "999 days")


class Wait(Duration):
    least = (0, "0")
    most = (60_000, "60 s")


class Lease(Duration):
    least = (1_000, "1 s")
    most = (12 * _HOUR_MS, "12 h")


class Instant(int, metaclass=Scalar):
    """An instant in Unix milliseconds."""

    @classmethod
    def read(cls, value: Any) -> Any:
        try:
            return parse_instant_ms(whole(value))
        except ValueError as error:
            raise Refused(INSTANT_FORMS, str(error)) from None

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {
            "anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}],
            "description": INSTANT_FORMS,
        }


class DueInstant(Instant):
    """An instant in Unix milliseconds when something is to happen. 0 is now. Any other instant may be at most a day
    past."""

    @classmethod
    def read(cls, value: Any) -> Any:
        instant = super().read(value)
        try:
            check_not_past(instant, time() * 1_000)
        except ValueError as error:
            raise Refused(INSTANT_FORMS, str(error)) from None
        return instant


class QueryInstant(Instant):
    @classmethod
    def read(cls, value: Any) -> Any:
        # Few clients write the plus sign of an offset as %2B.
        return super().read(
            _OFFSET.sub(r"+\1", value) if isinstance(value, str) and " " in value else whole_number(value)
        )


class Base64(bytes, metaclass=Scalar):
    """Bytes that a request gives in base64."""

    @classmethod
    def read(cls, value: Any) -> Any:
        try:
            if isinstance(value, str):
                return base64.b64decode(value, validate=True)
        except (binascii.Error, ValueError):
            pass
        raise Refused("base64", "must be base64 with padding, in the standard alphabet (RFC 4648, section 4)")

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "contentEncoding": "base64"}


class Number(int, metaclass=Scalar):
    """A whole number from `least` to `most`. As in JSON Schema, 3.0 and 3e2 also count as whole numbers."""

    least: ClassVar[int] = 0
    most: ClassVar[int]

    @classmethod
    def read(cls, value: Any) -> Any:
        number = whole(value)
        if type(number) is not int:
            raise Refused("an integer", "must be an integer")
        if number < cls.least:
            raise Refused(cls.least, f"must be at least {cls.least}")
        if number > cls.most:
            raise Refused(cls.most, f"must be at most {cls.most}")
        return number

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "integer", "minimum": cls.least, "maximum": cls.most}


class Retries(Number):
    most = MAX_RETRIES


class Bytes(Number):
    most = LARGEST_BODY


class Count(Number):
    """A whole number in a query, where each value is text."""

    least = 1
    most = 1_000

    @classmethod
    def read(cls, value: Any) -> Any:
        return super().read(whole_number(value))


class AmqpName(str, metaclass=Scalar):
    """A name that AMQP can hold: at most 255 bytes in UTF-8. `least`: the least length in bytes."""

    least: ClassVar[int]

    @classmethod
    def read(cls, value: Any) -> Any:
        if isinstance(value, str) and cls.least <= len(value.encode(errors="replace")) <= LONGEST_NAME:
            return value
        raise Refused(LONGEST_NAME, f"must be a text of {cls.least} to {LONGEST_NAME} bytes in UTF-8")

    @classmethod
    def schema(cls) -> dict[str, Any]:
        return {"type": "string", "minLength": cls.least, "maxLength": LONGEST_NAME}


class ExchangeName(AmqpName):
    least = 1


class RoutingKey(AmqpName):
    least = 0


def whole(value: Any) -> Any:
    """Returns a number such as 3.0 or 3e2 as an integer, because JSON Schema counts it as whole. Any other value is
    returned unchanged."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def whole_number(value: Any) -> Any:
    """Returns a text of digits, with or without a minus sign, as an integer. Returns any other value unchanged. Values
    in a query are always text."""
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


def listed(value: Any) -> list[Any]:
    """Returns the values of a parameter that a client may repeat, as a list. A single value becomes a list of one."""
    return value if isinstance(value, list) else [value]


MediaType = Annotated[str, Meta(max_length=LONGEST_NAME, pattern=MEDIA_TYPE_PATTERN)]
Reason = Annotated[str, Meta(max_length=500)]
ShownInstant = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]
"""An instant in an answer: RFC 3339 in UTC with milliseconds, as `format_instant` writes it."""
