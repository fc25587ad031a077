"""Reads the JSON of a send, without a search for long numbers in a long body that is compact already. Pure.

The search of `exact_json` takes most of the time of reading 10 kB. So this module writes the parsed body as JSON, and
compares that with the document. If both are the same bytes, parsing has lost no digit.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from bridge.http import exact_json
from bridge.http.json_bounds import weigh

_LONG: Final = 1_024  # bytes; the search of a shorter document costs no more than the comparison
_KEY: Final = b'"body":'


def loads(document: bytes) -> tuple[Any, bytes | None]:
    """Returns the value of the document, and its member `body` as compact JSON; None if that was not written.

    Raises:
        ValueError: the document is not JSON, as for `exact_json.loads`.
        TooManyValues: parsing the document would take too much memory.
    """
    weigh(document)
    if len(document) < _LONG:
        return exact_json.loads(document), None
    try:
        message = orjson.loads(document)
        body = exact_json.dumps(message["body"])
    except (ValueError, TypeError, KeyError):
        # The document is no JSON, no object or has no body. Or the body can't be written.
        return exact_json.loads(document), None
    if exact_json.may_lose_digits(_without_body(document, body)):
        return exact_json.loads(document), None
    return message, body


def _without_body(document: bytes, body: bytes) -> bytes:
    """Returns the document without a value that is exactly this body; the whole document if it has no such value."""
    # The document is valid, so a value always follows `_KEY`: a string holds no bare quote. The value need not be the
    # message's own body. As its bytes equal the written body, it has no long number.
    start = document.find(_KEY) + len(_KEY)
    end = start + len(body)
    # A longer number may begin as the body does: 1.0000000000000000001.
    if start < len(_KEY) or not document.startswith(body, start) or document[end : end + 1] not in (b",", b"}"):
        return document
    return document[:start] + document[end:]
