"""Keeps the id and the token of the request for which a task works.

Each line that the task logs names the id, and timelines tell the token. A task that a request begins works for the same
request. Work that several requests share names none of them.
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
enter_token = _token_id.set  # the same for the id of the token that the request came with

# The id of that token; `NOBODY` for shared work, and where no token is required.
token_id = _token_id.get


def current() -> str:
    """The id of the request for which the task works; `NOBODY` for shared work."""
    return _request_id.get()


@contextmanager
def shared() -> Iterator[None]:
    """Within the context, the task works for nobody, and so do the tasks that it begins, such as those of a new
    connection."""
    former, former_token = _request_id.set(NOBODY), _token_id.set(NOBODY)
    try:
        yield
    finally:
        _request_id.reset(former)
        _token_id.reset(former_token)


def shared_task(work: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
    """Begins work that several requests share, or that goes on after the request that began it."""
    context = copy_context()
    context.run(_request_id.set, NOBODY)
    context.run(_token_id.set, NOBODY)
    return asyncio.create_task(work, context=context)
