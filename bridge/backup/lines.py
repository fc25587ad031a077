"""Writes and reads the lines of a backup: one JSON object each. Pure.

docs/operating/backup.md describes the format. A reader ignores unknown members, so a later version may add members. A
change that an earlier version would misread needs a new number in `FORMAT`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson

from bridge.model.errors import BridgeError
from bridge.model.labels import NO_LABELS, packed, unpacked, valid_key, valid_value
from bridge.model.message import SHOWN_STATES, Envelope, Message, Record, Target, valid_id, valid_topic
from bridge.model.schedule_names import valid_schedule
from bridge.model.values import Policy
from bridge.service.schedules.definition import Schedule, read_schedule
from bridge.store.kept.kept_fields import Field, is_kept
from bridge.store.kept.policies import read_policy
from bridge.store.kept.schedules import StoredSchedule

FORMAT: Final = 2
"""The format that this version writes. Format 1 had no targets (exchange and routing key for a due message). So a
version that knows only format 1 would restore a message without its target."""
_READABLE: Final = (1, FORMAT)
Line = Mapping[str, Any]

_STATES: Final = {state.label: state for state in SHOWN_STATES}
# In the order of the fields of `Record`. Every backup has these members; a reader gives later ones a default.
_NUMBERS: Final = (
    "epoch",
    "nonce",
    "created_ms",
    "due_ms",
    "expires_ms",
    "attempts",
    "max_retry",
    "arrives_ms",
    "last_ms",
    "lease_until_ms",
    "ended_ms",
    "forget_ms",
)
_PARTS: Final = ("spec", "message", "state")


class Kind(StrEnum):
    """The kind of content of a line. The head is the first line, and the end is the last line."""

    HEAD = "backup"
    TOPIC = "topic"
    FIELD = "field"
    SCHEDULE = "schedule"
    MESSAGE = "message"
    END = "end"


class BadBackup(BridgeError):
    """The file is no complete backup that this version reads: a line is wrong, or the end is missing."""


class Topic(NamedTuple):
    """A topic and its policy. `policy` None: the topic has no policy."""

    name: str
    policy: Policy | None


def written(kind: Kind, members: Line) -> bytes:
    """Returns a line of the kind as JSON, with a newline. `members`: the line's content."""
    return orjson.dumps({"kind": kind, **members}, option=orjson.OPT_APPEND_NEWLINE)


def read(line: bytes, number: int) -> Line:
    """Parses a line, and returns its JSON object. `number`: the line's number, which errors name.

    Raises:
        BadBackup: the line is no JSON object, or has no known kind.
    """
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise BadBackup(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict) or found.get("kind") not in list(Kind):
        raise BadBackup(f"line {number} has no kind of {', '.join(Kind)}")
    return found


def check_head(line: Line) -> None:
    """Checks that this version can read a backup. `line`: the backup's first line.

    Raises:
        BadBackup: the line names a format that this version does not know.
    """
    if line.get("format") not in _READABLE:
        raise BadBackup(f"the backup has the format {line.get('format')!r}, and this version reads 1 to {FORMAT}")


def message_line(message: Message) -> bytes:
    """Returns the line of a message. A body that Redis does not keep is null."""
    record, envelope = message.record, message.envelope or Envelope()
    body, target = envelope.body, envelope.target
    return written(
        Kind.MESSAGE,
        {
            "topic": record.topic,
            "id": record.id,
            "state": record.state.label,
            **{name: getattr(record, name) for name in _NUMBERS},
            "reason": record.reason,
            "content_type": envelope.content_type,
            "labels": unpacked(record.labels),
            "headers": envelope.headers,
            "properties": envelope.properties,
            "target": None if target is None else [target.exchange, target.routing_key],
            "body_base64": None if body is None else b64encode(body).decode(),
        },
    )


def read_message(line: Line, number: int) -> Message:
    """Reads the line of a message. `number`: the line's number, which errors name.

    Raises:
        BadBackup: a member is missing or wrong.
    """
    try:
        topic, message_id, body = line["topic"], line["id"], line["body_base64"]
        if not (valid_topic(topic) and valid_id(message_id)):
            raise BadBackup(f"line {number} has no valid topic and id")
        numbers = (int(line[name]) for name in _NUMBERS)
        labels, target = dict(line.get("labels", NO_LABELS)), line.get("target")
        if not all(valid_key(key) and valid_value(value) for key, value in labels.items()):
            raise BadBackup(f"line {number} has no valid labels")
        values: Any = (_STATES[line["state"]], *numbers, line["reason"], packed(labels))
        return Message(
            record=Record(topic, message_id, *values),
            envelope=Envelope(
                content_type=line["content_type"],
                headers=line["headers"],
                properties=line["properties"],
                body=None if body is None else b64decode(body, validate=True),
                target=None if target is None else _target(*target),
            ),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BadBackup(f"line {number} is no message: {type(error).__name__} {error}") from None


def _target(exchange: Any, routing_key: Any) -> Target:
    if type(exchange) is not str or type(routing_key) is not str:
        raise TypeError("a target is two texts, exchange and routing key")
    return Target(exchange, routing_key)


def read_topic(line: Line, number: int) -> Topic:
    """Reads the line of a topic. `number`: the line's number, which errors name.

    Raises:
        BadBackup: a member is missing or wrong.
    """
    try:
        name, policy = line["topic"], line["policy"]
        if not valid_topic(name):
            raise BadBackup(f"line {number} has no valid topic: {name!r}")
        return Topic(name, None if policy is None else read_policy(orjson.dumps(policy)))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadBackup(f"line {number} is no topic: {type(error).__name__} {error}") from None


def schedule_line(stored: StoredSchedule) -> bytes:
    """Returns the line of a schedule: its spec, its message, and how far its ticks are planned."""
    parts = {name: orjson.loads(getattr(stored, name)) for name in _PARTS}
    return written(Kind.SCHEDULE, {"name": stored.name, **parts})


def read_schedule_line(line: Line, number: int) -> Schedule:
    """Reads the line of a schedule. `number`: the line's number, which errors name.

    Raises:
        BadBackup: a member is missing or wrong.
    """
    try:
        name = line["name"]
        if not (isinstance(name, str) and valid_schedule(name)):
            raise BadBackup(f"line {number} has no valid name of a schedule: {name!r}")
        parts = {part: orjson.dumps(line[part]) for part in _PARTS}
        return read_schedule(StoredSchedule(name=name, **parts))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadBackup(f"line {number} is no schedule: {type(error).__name__} {error}") from None


def read_field(line: Line, number: int) -> Field:
    """Reads a line that holds one field of a Redis hash. `number`: the line's number, which errors name.

    Raises:
        BadBackup: a member is missing or wrong, or the field belongs to a hash that backups do not hold.
    """
    try:
        field = Field(*(line[name] for name in Field._fields))
    except KeyError as error:
        raise BadBackup(f"line {number} is no field: {error} is missing") from None
    if not (all(isinstance(text, str) for text in field) and is_kept(field)):
        raise BadBackup(f"line {number} has a field of {field.of!r}, which no backup has")
    return field
