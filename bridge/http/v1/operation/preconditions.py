"""Writes the `ETag` of a message, and checks `If-Match` (RFC 9110, sections 8.8.3 and 13.1.1)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final

from bridge.model.errors import InvalidRequest, NotAsSeen
from bridge.model.message import Record

IF_MATCH: Final = "If-Match"
ETAG: Final = "ETag"
ANY: Final = "*"
_HEADER: Final = IF_MATCH.lower().encode()
LONGEST: Final = 1_024  # characters
_TAG: Final = re.compile(r'(W/)?"[!#-~]*"')
_LIST: Final = re.compile(rf"\s*{_TAG.pattern}(?:\s*,\s*{_TAG.pattern})*\s*")


def etag(record: Record) -> str:
    """Returns the entity tag of the message, for `ETag`. It differs after each change that an answer shows."""
    return f'"{blake2b(record.version.encode(), digest_size=12).hexdigest()}"'


def etag_header(record: Record) -> list[tuple[bytes, bytes]]:
    return [(b"etag", etag(record).encode())]


class Precondition:
    """The header `If-Match` of a request. `is_given`: whether the request has this header with entity tags. False for
    `*`, because any version of the message satisfies `*`."""

    def __init__(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """`headers`: the headers of the ASGI scope.

        Raises:
            InvalidRequest: `If-Match` is neither a list of tags nor `*`, or too long.
        """
        values = [value for name, value in headers if name == _HEADER]
        given = b", ".join(values).decode("latin-1")
        self.is_given = bool(values) and given.strip() != ANY
        if self.is_given and (len(given) > LONGEST or not _LIST.fullmatch(given)):
            form = 'must be the ETag of an answer, in its quotes, or a list of them, or "*"'
            raise InvalidRequest.of(IF_MATCH, given, f"{LONGEST} characters", form)
        # A weak tag never matches: the tags of this API are strong.
        self._tags = {match[0] for match in _TAG.finditer(given) if not match[1]}

    def check(self, record: Record) -> None:
        """Checks that the client has seen this version of the message. Does nothing if `is_given` is False.

        Raises:
            NotAsSeen: `If-Match` lists entity tags, and the record's tag is not among them.
        """
        if self.is_given and etag(record) not in self._tags:
            state = record.state.label
            raise NotAsSeen(f"the message has another ETag by now: it is {state}; look it up again", state=state)
