"""Defines the scalar types for pydantic: names, durations and instants in milliseconds, media types, shown instants."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from time import time
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, PlainValidator, StrictStr, WithJsonSchema
from pydantic_core import PydanticCustomError

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
_MAX_MEDIA_TYPE = LONGEST_NAME
_TOKEN = r"[A-Za-z0-9!#$&^_.+*'|~-]+"
MEDIA_TYPE_PATTERN = rf'^{_TOKEN}/{_TOKEN}([ \t]*;[ \t]*{_TOKEN}=({_TOKEN}|"[ !#-\[\]-~]*"))*$'


def refused(limit: Any, message: str) -> PydanticCustomError:
    """Returns the error for a validator to raise. `limit`: the limit that the value breaks. `message`: a sentence for
    the client."""
    # pydantic formats its message template. Passing ours as a parameter keeps braces in it as they are.
    return PydanticCustomError("refused", "{message}", {"limit": limit, "message": message})


def topic(value: Any) -> str:
    """Validates a topic's name, and returns it."""
    if isinstance(value, str) and valid_topic(value):
        return _no_step(value)
    raise refused(TOPIC_PATTERN, TOPIC_FORM)


def _no_step(name: str) -> str:
    if is_path_step(name):
        raise refused(PATH_STEP.removeprefix("must be "), PATH_STEP)
    return name


def message_id(value: Any) -> str:
    """Validates a message's id, and returns it."""
    if isinstance(value, str) and valid_id(value):
        return value
    raise refused(ID_FORM.removeprefix("must be "), ID_FORM)


def new_message_id(value: Any) -> str:
    """Validates the id that a client gives to a new message, and returns it."""
    if isinstance(value, str) and may_be_sent(value):
        return value
    raise refused(ID_FORM.removeprefix("must be "), ID_FORM)


def duration(least_ms: int, most_ms: int, least: str, most: str) -> Callable[[Any], int]:
    """Returns a validator that parses a duration into milliseconds. `least` and `most`: the limits as error messages
    show them."""

    def parse(value: Any) -> int:
        try:
            duration_ms = parse_duration_ms(whole(value))
        except ValueError as error:
            raise refused(DURATION_FORMS, str(error)) from None
        if duration_ms < least_ms:
            raise refused(least_ms, f"must be at least {least} ({least_ms} ms)")
        if duration_ms > most_ms:
            raise refused(most_ms, f"must be at most {most} ({most_ms} ms)")
        return duration_ms

    return parse


def duration_schema(least_ms: int, most_ms: int) -> WithJsonSchema:
    """Returns the JSON schema of a duration within these limits."""
    text = {"type": "string", "maxLength": 64, "pattern": DURATION_PATTERN}
    forms = [{"type": "integer", "minimum": least_ms, "maximum": most_ms}, text]
    return WithJsonSchema({"anyOf": forms, "description": f"A duration: {DURATION_FORMS}"})


def _instant(value: Any) -> int:
    try:
        return parse_instant_ms(whole(value))
    except ValueError as error:
        raise refused(INSTANT_FORMS, str(error)) from None


def _due_instant(value: Any) -> int:
    instant_ms = _instant(value)
    try:
        check_not_past(instant_ms, time() * 1_000)
    except ValueError as error:
        raise refused(INSTANT_FORMS, str(error)) from None
    return instant_ms


def _queried_instant(value: Any) -> int:
    # Few clients write the plus sign of an offset as %2B.
    return _instant(_OFFSET.sub(r"+\1", value) if isinstance(value, str) and " " in value else whole_number(value))


def _base64(value: Any) -> bytes:
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise refused("base64", "must be base64 with padding, in the standard alphabet (RFC 4648, section 4)")


def whole(value: Any) -> Any:
    """Returns the value. Whole numbers written as 3.0 or 3e2 become integers, as JSON Schema counts them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def whole_number(value: Any) -> Any:
    """Returns the value. A text of digits becomes an integer, because all values in a query are text."""
    return int(value) if isinstance(value, str) and _WHOLE.fullmatch(value) else value


def listed(value: Any) -> list[Any]:
    """Returns the values of a parameter that a client may repeat, as a list."""
    return value if isinstance(value, list) else [value]


_DELAY_SCHEMA = duration_schema(0, MAX_DELAY_MS)
_INSTANT_SCHEMA = WithJsonSchema(
    {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "integer"}], "description": INSTANT_FORMS}
)

Topic = Annotated[str, PlainValidator(topic), WithJsonSchema({"type": "string", "pattern": TOPIC_PATTERN})]
NewId = Annotated[
    str,
    PlainValidator(lambda value: _no_step(new_message_id(value))),
    WithJsonSchema({"type": "string", "pattern": NEW_ID_PATTERN}),
]
MessageId = Annotated[str, PlainValidator(message_id), WithJsonSchema({"type": "string", "pattern": ID_PATTERN})]
Delay = Annotated[int, PlainValidator(duration(0, MAX_DELAY_MS, "0", "999 days")), _DELAY_SCHEMA]
Ttl = Annotated[int, PlainValidator(duration(1, MAX_DELAY_MS, "1 ms", "999 days")), duration_schema(1, MAX_DELAY_MS)]
Wait = Annotated[int, PlainValidator(duration(0, 60_000, "0", "60 s")), duration_schema(0, 60_000)]
Lease = Annotated[
    int, PlainValidator(duration(1_000, 12 * _HOUR_MS, "1 s", "12 h")), duration_schema(1_000, 12 * _HOUR_MS)
]
Instant = Annotated[int, PlainValidator(_instant), _INSTANT_SCHEMA]
DueInstant = Annotated[int, PlainValidator(_due_instant), _INSTANT_SCHEMA]
"""An instant when something is to happen; it must not be long past."""
QueryInstant = Annotated[int, PlainValidator(_queried_instant), _INSTANT_SCHEMA]
ShownInstant = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""An instant in an answer: RFC 3339 in UTC with milliseconds, as `format_instant` writes it."""


def _amqp_name(least: int) -> Callable[[Any], str]:
    """Returns a validator of a name that AMQP can hold. `least`: the least length of the name in bytes."""

    def check(value: Any) -> str:
        if isinstance(value, str) and least <= len(value.encode(errors="replace")) <= LONGEST_NAME:
            return value
        raise refused(LONGEST_NAME, f"must be a text of {least} to {LONGEST_NAME} bytes in UTF-8")

    return check


def _amqp_schema(least: int) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "minLength": least, "maxLength": LONGEST_NAME})


ExchangeName = Annotated[str, PlainValidator(_amqp_name(1)), _amqp_schema(1)]
RoutingKey = Annotated[str, PlainValidator(_amqp_name(0)), _amqp_schema(0)]
Base64 = Annotated[bytes, PlainValidator(_base64), WithJsonSchema({"type": "string", "contentEncoding": "base64"})]
MediaType = Annotated[StrictStr, Field(max_length=_MAX_MEDIA_TYPE, pattern=MEDIA_TYPE_PATTERN)]
Retries = Annotated[int, Field(strict=True, ge=0, le=MAX_RETRIES), BeforeValidator(whole)]
Bytes = Annotated[int, Field(strict=True, ge=0, le=LARGEST_BODY), BeforeValidator(whole)]
Reason = Annotated[StrictStr, Field(max_length=500)]
