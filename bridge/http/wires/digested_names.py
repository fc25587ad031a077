"""Derives topics and ids from names of any text, for wires of delay queues that take any name.

If the bridge does not allow a name, a digest replaces it, and a header of the message carries the name. All these wires
derive names in the same way, so each of them finds a job that another one sent.
"""

from __future__ import annotations

import re
from typing import Final

from bridge.model.errors import InvalidRequest
from bridge.model.message import Envelope, Record, digest_of_name, id_of, is_path_step, taken_id, valid_topic

LONGEST: Final = 1_000
"""The most bytes in UTF-8 that a client's name may have."""

_TOPIC, _ID = "job-topic", "job-id"
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def check(field: str, name: str) -> None:
    """Checks the length of a client's name. `field`: the parameter that holds the name, for the error.

    Raises:
        InvalidRequest: the name has more than `LONGEST` bytes.
    """
    size = len(name.encode())
    if size > LONGEST:
        raise InvalidRequest.of(field, name[:200], LONGEST, f"has {size} bytes and must have at most {LONGEST}")


def topic_of(name: str) -> str:
    """Returns the bridge's topic for the name that a client gave: the name itself, or one with a digest if the bridge
    does not allow the name."""
    if valid_topic(name) and not is_path_step(name):
        return name
    return f"{_FORBIDDEN.sub('-', name)[:60]}.{digest_of_name(name)}"


def headers_of(topic: str, message_id: str) -> dict[str, str]:
    """Returns the headers that keep a client's topic and id in a message. A name has a header only if a digest replaces
    the name."""
    headers = {}
    if topic_of(topic) != topic:
        headers[_TOPIC] = topic
    if id_of(message_id) != message_id:
        headers[_ID] = message_id
    return headers


def shown(record: Record, envelope: Envelope | None) -> tuple[str, str]:
    """Returns the topic and the id that the message's sender gave, from the message's headers. A name without a header
    is returned as in the record. If a newer message has taken the sender's id, the id is also returned as in the
    record. Otherwise clients would end the newer message by that id."""
    headers = envelope.headers if envelope is not None else {}
    given_id = headers.get(_ID, record.id) if taken_id(record.id) == record.id else record.id
    return str(headers.get(_TOPIC, record.topic)), str(given_id)
