"""Reads request parameters by the rules of Spring MVC's @RequestParam, and builds Spring Boot's answer to a wrong one.

The query string's values come before the form's. If a name is given more than once, a text is all its values joined
by commas, and a number or a boolean is the first value. Text is read as UTF-8, whatever charset the request names.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import AsyncGenerator, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers
from starlette.formparsers import MultiPartException, MultiPartParser

from bridge.access.caller import Caller
from bridge.http import off_loop
from bridge.http.bodies import body_of

Result = TypeVar("Result")

_TRUE: Final = ("true", "on", "yes", "1")
_FALSE: Final = ("false", "off", "no", "0")
_NUMBER: Final = re.compile(r"[+-]?\d{1,19}")
_MAX_PARAMETERS: Final = 10_000


class BadParameter(Exception):
    """A parameter is missing or malformed, or the body is not a valid form."""


def bad_request(request: Request) -> JSONResponse:
    """Returns Spring Boot's answer to a wrong parameter, which does not name the parameter."""
    timestamp = datetime.now(UTC).isoformat(timespec="milliseconds")
    error = {"timestamp": timestamp, "status": 400, "error": "Bad Request", "path": request.url.path}
    return JSONResponse(error, status_code=400)


@dataclass(frozen=True, slots=True)
class Params:
    """The parameters of one request. Its methods raise BadParameter if a parameter is missing or malformed. `values`:
    all values of each parameter, by name."""

    request: Request
    caller: Caller
    values: Mapping[str, Sequence[str]]

    @classmethod
    async def of(cls, request: Request, caller: Caller) -> Params:
        """Reads the parameters from the query string, and from the body of a POST if the body is a form."""
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
        """Returns a parameter as a Java long, or with `bits=32` as a Java int. A missing or empty value means
        `default`; if `default` is None, the value is required."""
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
        return await off_loop.parsed(_unquote, await body_of(request.receive))
    if content_type == "multipart/form-data":
        return await off_loop.parsed(partial(_parts, request.headers), await body_of(request.receive))
    return []


def _parts(headers: Headers, body: bytes) -> list[tuple[str, str]]:
    """Reads the text parts of a multipart form."""

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    # The server limits the size of the whole request, so parts need no limit.
    parser = MultiPartParser(headers, stream(), max_fields=_MAX_PARAMETERS, max_part_size=sys.maxsize)
    parser.spool_max_size = sys.maxsize  # a part in a file would make the parser wait
    try:
        form = _result(parser.parse())
    except (MultiPartException, KeyError) as error:
        raise BadParameter("malformed form") from error
    _result(form.close())
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]


def _result(parsing: Coroutine[Any, Any, Result]) -> Result:
    """Returns the result of a coroutine that never waits. It needs no event loop, so it works in any thread."""
    try:
        parsing.send(None)
    except StopIteration as ended:
        result: Result = ended.value
        return result
    raise RuntimeError("the parser waits for something")
