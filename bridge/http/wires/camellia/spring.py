"""Reads request parameters as Spring MVC's @RequestParam does, and builds Spring Boot's answer to a wrong one.

The query string's values come before the form's. If a name is given more than once, a string is all its values joined
by commas. A number or a boolean is the first value. Text is read as UTF-8, whatever charset the request names.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.formparsers import MultiPartException, MultiPartParser

from bridge.access.caller import Caller

_TRUE: Final = ("true", "on", "yes", "1")
_FALSE: Final = ("false", "off", "no", "0")
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")
_MAX_PARAMETERS: Final = 10_000


class BadParameter(Exception):
    """A parameter is missing or malformed, or the body is not a valid form."""


def bad_request(request: Request) -> JSONResponse:
    """Returns Spring Boot's own answer, which does not name the parameter."""
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    error = {"timestamp": timestamp, "status": 400, "error": "Bad Request", "path": request.url.path}
    return JSONResponse(error, status_code=400)


@dataclass(frozen=True, slots=True)
class Params:
    """The parameters of one request. Every reader raises BadParameter."""

    request: Request
    caller: Caller
    values: Mapping[str, Sequence[str]]

    @classmethod
    async def of(cls, request: Request, caller: Caller) -> Params:
        """Reads the query string, and the body of a POST if it is a form."""
        pairs = _unquote(request.scope["query_string"])
        if request.method == "POST":
            pairs += await _form(request)
        values: defaultdict[str, list[str]] = defaultdict(list)
        for name, value in pairs:
            values[name].append(value)
        return cls(request, caller, values)

    def text(self, name: str) -> str:
        if (value := self.text_if_given(name)) is None:
            raise BadParameter(name)
        return value

    def text_if_given(self, name: str) -> str | None:
        return ",".join(self.values[name]) if name in self.values else None

    def number(self, name: str, *, default: int | None = None, bits: int = 64) -> int:
        """Reads a Java long, or an int with 32 bits. An empty value means the default."""
        digits = "".join(self._first(name).split())
        if not digits and default is not None:
            return default
        if not _NUMBER.fullmatch(digits):
            raise BadParameter(name)
        number = int(digits)
        if not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
            raise BadParameter(name)
        return number

    def boolean(self, name: str, *, default: bool) -> bool:
        word = self._first(name).strip().lower()
        if word and word not in _TRUE + _FALSE:
            raise BadParameter(name)
        return word in _TRUE if word else default

    def _first(self, name: str) -> str:
        return self.values[name][0] if name in self.values else ""


def _unquote(encoded: bytes) -> list[tuple[str, str]]:
    text = encoded.decode(errors="replace")
    try:
        return parse_qsl(text, keep_blank_values=True, max_num_fields=_MAX_PARAMETERS)
    except ValueError as error:
        raise BadParameter("too many parameters") from error


async def _form(request: Request) -> list[tuple[str, str]]:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == "application/x-www-form-urlencoded":
        return _unquote(await request.body())
    if content_type == "multipart/form-data":
        # The server limits the size of the whole request, so parts need no limit.
        parser = MultiPartParser(
            request.headers, request.stream(), max_fields=_MAX_PARAMETERS, max_part_size=sys.maxsize
        )
        try:
            form = await parser.parse()
        except (MultiPartException, KeyError) as error:
            raise BadParameter("malformed form") from error
        await form.close()
        return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
    return []
