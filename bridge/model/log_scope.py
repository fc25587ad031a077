"""Keeps, for each task, the id of the request for which the task works, and the id of that request's token.

Log lines of the task have the request's id, and timelines have the token's id. A task that a request begins works for
that request. Work that several requests share has neither id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from typing import Any, Final, TypeVar

Result = TypeVar("Result")

NOBODY: Final = ""
_request_id: ContextVar[str] = ContextVar("request_id", default=NOBODY)
_token_id: ContextVar[str] = ContextVar("token_id", default=NOBODY)

# Sets the id of the request for which the task works from now on. The method itself: a function would double its cost.
enter = _request_id.set
enter_token = _token_id.set  # sets the id of the token that the request came with

# Returns the id of the request's token; `NOBODY` for shared work, and if the bridge requires no token.
token_id = _token_id.get


def current() -> str:
    """Returns the id of the request for which the task works; `NOBODY` for shared work."""
    return _request_id.get()


@contextmanager
def shared() -> Iterator[None]:
    """Within this context, the task works for no request. Tasks that it begins there, such as the tasks of a new
    connection, work for no request either."""
    former, former_token = _request_id.set(NOBODY), _token_id.set(NOBODY)
    try:
        yield
    finally:
        _request_id.reset(former)
        _token_id.reset(former_token)


def shared_task(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Begins a task without a request's id: several requests share the work, or it outlives the request."""
    context = copy_context()
    context.run(_request_id.set, NOBODY)
    context.run(_token_id.set, NOBODY)
    return asyncio.create_task(work, context=context)
