"""Writes and reads cursors: the moment and id of a page's last entry. The next page starts after this entry. For a page
of messages, the moment is the due moment.

The cursor of a page over several topics also has the topic.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64

from bridge.model.errors import InvalidRequest
from bridge.model.message import valid_id, valid_topic

_MOMENT = re.compile(r"[0-9]{1,19}")


def make_cursor(moment_ms: int, entry_id: str) -> str:
    """Returns the cursor for a page that ends with this entry. `moment_ms`: the entry's moment in Unix ms."""
    return _encoded(f"{moment_ms}.{entry_id}")


def make_place(moment_ms: int, topic: str, entry_id: str) -> str:
    """Returns the cursor for a page over several topics that ends with this entry. `moment_ms`: the entry's moment in
    Unix ms."""
    return _encoded(f"{moment_ms} {topic} {entry_id}")


def read_cursor(cursor: str) -> tuple[int, str]:
    """Returns the moment (Unix ms) and the id in a cursor that `make_cursor` returned.

    Raises:
        InvalidRequest: no page gave this cursor.
    """
    moment_ms, _, entry_id = _decoded(cursor).partition(".")
    if _MOMENT.fullmatch(moment_ms) and valid_id(entry_id) and make_cursor(int(moment_ms), entry_id) == cursor:
        return int(moment_ms), entry_id
    raise not_a_cursor(cursor)


def read_place(cursor: str) -> tuple[int, str, str]:
    """Returns the moment (Unix ms), the topic and the id in a cursor that `make_place` returned.

    Raises:
        InvalidRequest: no page gave this cursor.
    """
    moment_ms, _, place = _decoded(cursor).partition(" ")
    topic, _, entry_id = place.partition(" ")
    is_place = _MOMENT.fullmatch(moment_ms) and valid_topic(topic) and valid_id(entry_id)
    if is_place and make_place(int(moment_ms), topic, entry_id) == cursor:
        return int(moment_ms), topic, entry_id
    raise not_a_cursor(cursor)


def make_topic_cursor(topic: str) -> str:
    """Returns the cursor for a page of names, of topics or schedules, that ends with this name."""
    return _encoded(topic)


def read_topic_cursor(cursor: str) -> str:
    """Returns the name in a cursor that `make_topic_cursor` returned.

    Raises:
        InvalidRequest: no page gave this cursor.
    """
    topic = _decoded(cursor)
    if valid_topic(topic) and make_topic_cursor(topic) == cursor:
        return topic
    raise not_a_cursor(cursor)


def _encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _decoded(cursor: str) -> str:
    try:
        return urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
    except (NotBase64, ValueError):
        return ""


def not_a_cursor(cursor: str) -> InvalidRequest:
    """Returns the error for a cursor that no page gave."""
    return InvalidRequest.of(
        "cursor", cursor[:200], "a next_cursor given with a page", "is not a cursor: use next_cursor of the page before"
    )
