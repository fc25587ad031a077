"""Parses large bodies in a thread: the event loop also releases due messages, and must not wait for one request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

Result = TypeVar("Result")

_LARGE_BYTES: Final = 256 * 1024  # parsed within some milliseconds
# One thread: each further thread would take as much of the interpreter's time from the event loop.
_THREAD: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-bodies")


async def parsed(parse: Callable[[bytes], Result], document: bytes) -> Result:
    """Returns `parse(document)`. Runs it in a thread if the document has more than 256 KiB. Raises the errors of
    `parse`."""
    if len(document) <= _LARGE_BYTES:
        return parse(document)
    return await asyncio.get_running_loop().run_in_executor(_THREAD, parse, document)
