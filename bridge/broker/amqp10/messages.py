"""Says why RabbitMQ can't give a message to an AMQP 0.9.1 client. Pure.

RabbitMQ keeps a message as its client sent it, and converts the message when it delivers. If RabbitMQ has no
conversion, the reader's channel ends and takes the connection with it (541 INTERNAL_ERROR). On 4.0 and 4.3 this happens
for types that AMQP 0.9.1 lacks (uuid, char), and for maps with a key that is no short string. It also happens for a
content type of more than 255 bytes, and before 4.3 for decimals.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Final

from bridge.broker.amqp10.values import Typed, decode

_ANNOTATIONS, _PROPERTIES, _APPLICATION_PROPERTIES = 0x72, 0x73, 0x74
_FIRST_OF_BODY: Final = 0x75
_LONGEST_TEXT: Final = 255  # bytes of a short text in AMQP 0.9.1

_PLAIN: Final = frozenset(
    {"null", "boolean", "byte", "ubyte", "short", "ushort", "int", "uint", "long", "ulong"}
    | {"float", "double", "timestamp", "binary", "string", "symbol"}
)
_WITH_DECIMALS: Final = _PLAIN | {"decimal32", "decimal64", "decimal128"}
_DECIMALS_SINCE: Final = (4, 3)
# The names of properties, by their place in the section.
_NAMES: Final = (
    "message-id",
    "user-id",
    "to",
    "subject",
    "reply-to",
    "correlation-id",
    "content-type",
    "content-encoding",
)
_SHORT: Final = frozenset({"content-type", "content-encoding"})
# RabbitMQ takes these annotations for properties of AMQP 0.9.1.
_OF_PROPERTIES: Final = {
    "x-basic-type": {"string"},
    "x-basic-priority": {"ubyte"},
    "x-basic-delivery-mode": {"ubyte"},
    "x-basic-expiration": {"string"},
}
_DEATHS: Final = "x-opt-deaths"
_OF_DEATH: Final = ["queue", "reason", "count", "first-time", "last-time", "exchange", "routing-keys"]


@dataclass(frozen=True, slots=True)
class Header:
    """Three sections of an AMQP 1.0 message, which come before its body. `annotations`: names and values of the message
    annotations, which RabbitMQ and the client set. `properties`: the values of the section with the message-id, in the
    order of AMQP 1.0. `application_properties`: names and values that the client set."""

    annotations: tuple[tuple[Typed, Typed], ...] = ()
    properties: tuple[Typed, ...] = ()
    application_properties: tuple[tuple[Typed, Typed], ...] = ()

    @property
    def message_id(self) -> str:
        """The id that the client gave, as text; empty: it gave none."""
        return "" if not self.properties else _text(self.properties[0])

    def annotation(self, name: str) -> str:
        """Returns an annotation as text; empty: the message has no such annotation."""
        return next((_text(value) for key, value in self.annotations if key.value == name), "")


def header(message: bytes) -> Header:
    """Reads the sections before the body of a message. `message`: all bytes of a message, as AMQP 1.0 encodes it.

    Raises:
        ValueError: the sections can't be read.
    """
    at = 0
    annotations: tuple[tuple[Typed, Typed], ...] = ()
    properties: tuple[Typed, ...] = ()
    application_properties: tuple[tuple[Typed, Typed], ...] = ()
    while at < len(message):
        if message[at] != 0x00:
            raise ValueError(f"no section begins at byte {at}")
        descriptor, at = decode(message, at + 1)
        if descriptor.value >= _FIRST_OF_BODY:
            break
        section, at = decode(message, at)
        if descriptor.value == _ANNOTATIONS:
            annotations = tuple(section.value)
        elif descriptor.value == _PROPERTIES:
            properties = tuple(section.value)
        elif descriptor.value == _APPLICATION_PROPERTIES:
            application_properties = tuple(section.value)
    return Header(annotations, properties, application_properties)


def why_not_given(header: Header, version: tuple[int, ...]) -> str:
    """Says, for an operator, which part of a message this version of RabbitMQ can't convert. Returns an empty text if
    RabbitMQ converts the whole message. `version`: RabbitMQ's version, such as (4, 3, 6). Empty: unknown, and treated
    as older than 4.3."""
    plain = _WITH_DECIMALS if version >= _DECIMALS_SINCE else _PLAIN
    for name, value in zip(_NAMES, header.properties, strict=False):
        if name in _SHORT and len(str(value.value or "").encode()) > _LONGEST_TEXT:
            return f"its {name} has more than {_LONGEST_TEXT} bytes"
    for key, value in header.annotations:
        if why := _of_annotation(str(key.value), value, plain):
            return f"its message annotation {str(key.value)!r:.100} {why}"
    for key, value in header.application_properties:
        if why := _of_value(value, plain):
            return f"its application property {str(key.value)!r:.100} {why}"
    return ""


def _of_annotation(name: str, value: Typed, plain: Set[str]) -> str:
    if name == _DEATHS and value.type == "array" and all(map(_is_death, value.value)):
        return ""
    taken = _OF_PROPERTIES.get(name)
    if taken is not None and value.type not in taken:
        return f"is of the type {value.type}"
    return _of_value(value, plain)


def _of_value(value: Typed, plain: Set[str], within: str = "is") -> str:
    """Says which part of a value RabbitMQ can't convert. Returns an empty text if RabbitMQ converts the whole value.
    `plain`: the simple types that RabbitMQ converts. `within`: the first words of the answer, such as `is` or `has a
    value`."""
    match value.type:
        case "list":
            return next((why for one in value.value if (why := _of_member(one, plain))), "")
        case "array" if value.value is not None:
            return next((why for one in value.value if (why := _of_member(one, plain))), "")
        case "map":
            for key, one in value.value:
                if key.type not in {"string", "symbol"} or len(str(key.value).encode()) > _LONGEST_TEXT:
                    return f"has a key that is no text of at most {_LONGEST_TEXT} bytes"
                if why := _of_value(one, plain, "has a value"):
                    return why
            return ""
        case _:
            return "" if value.type in plain else f"{within} of the type {value.type}"


def _of_member(value: Typed, plain: Set[str]) -> str:
    # RabbitMQ converts this type everywhere else.
    return "has a member of the type ulong" if value.type == "ulong" else _of_value(value, plain, "has a member")


def _is_death(death: Typed) -> bool:
    """Whether RabbitMQ itself wrote this entry of `x-opt-deaths`, as far as the entry's form tells."""
    names = [str(key.value) for key, _ in death.value] if death.type == "map" else []
    return names in (_OF_DEATH, ["ttl", *_OF_DEATH])


def _text(value: Typed) -> str:
    if value.type == "null":
        return ""
    return value.value.hex() if isinstance(value.value, bytes) else str(value.value)
