"""Splits a batch into the documents of its messages. It parses no message, so a large batch takes little memory."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from bridge.http.json_bounds import LARGE_BYTES
from bridge.http.json_elements import SPACE, NoArray, TooManyElements, elements
from bridge.http.reading import read
from bridge.http.v1.contract.requests import MAX_BATCH, BatchRequest
from bridge.model.errors import InvalidRequest

_BEGIN: Final = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"messages"[ \t\r\n]*:[ \t\r\n]*\[')


def messages_of(batch: bytes) -> Iterable[bytes]:
    """Returns the JSON document of each message, in order. In a batch of more than 1 MiB, a document may be invalid
    JSON.

    Raises:
        BrokenJSON: the batch is not JSON.
        InvalidRequest: the batch has another form, or too many messages.
        TooManyValues: reading the batch would take too much memory.
    """
    # msgspec makes an object of each element before it counts them.
    begin = _BEGIN.match(batch) if len(batch) > LARGE_BYTES else None
    if begin is None:
        return map(bytes, read(BatchRequest, batch).messages)
    try:
        found, end = elements(batch, begin.end(), most=MAX_BATCH)
    except TooManyElements:
        message = f"must have at most {MAX_BATCH} entries"
        raise InvalidRequest.of("messages", f"more than {MAX_BATCH} entries", MAX_BATCH, message) from None
    except NoArray:
        return map(bytes, read(BatchRequest, batch).messages)
    if batch[end:].strip(SPACE) != b"}" or not found:
        return map(bytes, read(BatchRequest, batch).messages)
    return (batch[start:end] for start, end in found)
