"""Says whether a content type means JSON, or text in UTF-8. Pure."""

from __future__ import annotations

import re
from typing import Final

from bridge.model.message import JSON_TYPE

_JSON: Final = re.compile(r"application/json|[^/;]+/[^;]+\+json", re.IGNORECASE)
_TEXT: Final = re.compile(r"text/[^;]+", re.IGNORECASE)
_CHARSET: Final = re.compile(r';\s*charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)
_UTF8: Final = ("utf-8", "us-ascii")


def is_json(content_type: str) -> bool:
    # The first comparison settles almost all calls, and costs less than the match. An AMQP client that gives no content
    # type mostly sends JSON.
    return content_type in (JSON_TYPE, "") or _JSON.match(content_type) is not None


def is_utf8_text(content_type: str) -> bool:
    charset = _CHARSET.search(content_type)
    return _TEXT.match(content_type) is not None and (charset is None or charset[1].lower() in _UTF8)
