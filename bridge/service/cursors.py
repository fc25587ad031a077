"""Writes and reads the cursors of pages: a moment and an id, with which a page goes on behind an entry."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as NotBase64

from bridge.model.errors import InvalidRequest
from bridge.model.message import valid_id


def make_cursor(moment_ms: int, entry_id: str) -> str:
    """The cursor of an entry."""
    return urlsafe_b64encode(f"{moment_ms}.{entry_id}".encode()).decode().rstrip("=")


def read_cursor(cursor: str) -> tuple[int, str]:
    """The moment and the id that a cursor names.

    Raises:
        InvalidRequest: no page gave this cursor.
    """
    try:
        text = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode()
        moment_ms, _, entry_id = text.partition(".")
        if moment_ms.isdecimal() and valid_id(entry_id) and make_cursor(int(moment_ms), entry_id) == cursor:
            return int(moment_ms), entry_id
    except (NotBase64, ValueError):
        pass
    raise not_a_cursor(cursor)


def not_a_cursor(cursor: str) -> InvalidRequest:
    """The refusal of a cursor that no page gave."""
    return InvalidRequest.of(
        "cursor", cursor[:200], "a next_cursor given with a page", "is not a cursor: use next_cursor of the page before"
    )
