"""Derives topics and ids from names of any text, for wires whose originals take any name.

If the bridge does not allow a name, a digest replaces it, and a header of the message carries the name. All these wires
derive names alike, so a job that one of them sends is a message of the others too.
"""

from __future__ import annotations

import re
from typing import Final

from bridge.model.errors import InvalidRequest
from bridge.model.message import Envelope, Record, digest, id_of, is_path_step, valid_topic

LONGEST: Final = 1_000
"""The most bytes of a name."""

_TOPIC, _ID = "job-topic", "job-id"
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_.-]+")


def check(field: str, name: str) -> None:
    """Checks the length of a name. `field`: the parameter that holds the name, for the error.

    Raises:
        InvalidRequest: the name has more than `LONGEST` bytes.
    """
    size = len(name.encode())
    if size > LONGEST:
        raise InvalidRequest.of(field, name[:200], LONGEST, f"has {size} bytes and must have at most {LONGEST}")


def topic_of(name: str) -> str:
    """Returns the bridge's topic for a topic's name."""
    return name if valid_topic(name) and not is_path_step(name) else f"{_FORBIDDEN.sub('-', name)[:60]}.{digest(name)}"


def headers_of(topic: str, message_id: str) -> dict[str, str]:
    """Returns the headers that carry the names which a digest replaces."""
    headers = {}
    if topic_of(topic) != topic:
        headers[_TOPIC] = topic
    if id_of(message_id) != message_id:
        headers[_ID] = message_id
    return headers


def shown(record: Record, envelope: Envelope | None) -> tuple[str, str]:
    """Returns a message's topic and id as the client that sent it gave them."""
    headers = envelope.headers if envelope is not None else {}
    return str(headers.get(_TOPIC, record.topic)), str(headers.get(_ID, record.id))
