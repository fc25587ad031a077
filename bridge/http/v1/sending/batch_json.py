"""Reads the JSON of a batch. It reads a large batch one message at a time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from bridge.http import exact_json
from bridge.http.errors import BrokenJSON
from bridge.http.json_bounds import LARGE_BYTES, weigh
from bridge.http.json_elements import SPACE, NoArray, TooManyElements, elements
from bridge.http.v1.contract.requests import MAX_BATCH
from bridge.model.errors import InvalidRequest

_BEGIN: Final = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"messages"[ \t\r\n]*:[ \t\r\n]*\[')


@dataclass(frozen=True, slots=True)
class Unread:
    """A message that is not parsed yet: its place in the document, in bytes."""

    document: bytes
    start: int
    end: int

    def value(self) -> Any:
        """Parses the message, and returns its value.

        Raises:
            BrokenJSON: the message is not JSON.
            TooManyValues: parsing the message would take too much memory.
        """
        try:
            return exact_json.loads(weigh(self.document[self.start : self.end]))
        except ValueError as error:
            raise BrokenJSON(f"the body is not valid JSON: a message in it: {error}") from None


def loads(document: bytes) -> Any:
    """Parses a document, and returns its value. The messages of a large document are `Unread`.

    Raises:
        ValueError: the document is not JSON, as for `exact_json.loads`.
        InvalidRequest: there are too many messages.
        TooManyValues: parsing the document would take too much memory.
    """
    begin = _BEGIN.match(document) if len(document) > LARGE_BYTES else None
    if begin is None:
        return exact_json.loads(weigh(document))
    try:
        found, end = elements(document, begin.end(), most=MAX_BATCH)
    except TooManyElements:
        message = f"must have at most {MAX_BATCH} entries"
        raise InvalidRequest.of("messages", f"more than {MAX_BATCH} entries", MAX_BATCH, message) from None
    except NoArray:
        return exact_json.loads(weigh(document))
    if document[end:].strip(SPACE) != b"}":
        return exact_json.loads(weigh(document))
    return {"messages": [Unread(document, *place) for place in found]}
