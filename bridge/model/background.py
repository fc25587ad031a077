"""Begins work for which nobody waits, and logs the errors of it that would be lost.

asyncio tells such an error once it has forgotten the task, which may be hours later, and not in the words of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from time import monotonic
from typing import Any, Final

import structlog

from bridge.model import log_scope
from bridge.model.errors import Unavailable
from bridge.model.recent import Recent

log = structlog.get_logger(__name__)

_QUIET_S: Final = 60.0
"""The same error of the same work is logged no more often."""
_logged_s: Final[Recent[str, float]] = Recent(32)  # by work and kind of error


def begin(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Begins shared work and logs the error that ends it. The caller keeps the task."""
    task = log_scope.shared_task(work)
    task.add_done_callback(partial(ended, name))
    return task


def ended(name: str, task: asyncio.Task[Any]) -> None:
    """Logs the error of a task that has ended, if it has one."""
    if not task.cancelled() and (error := task.exception()) is not None:
        failed(name, error)


def failed(name: str, error: BaseException) -> None:
    """Logs an error of this work, unless it says that a server is away: whoever needs the server says so."""
    if isinstance(error, Unavailable):
        return
    kind, now_s = f"{name} {type(error).__name__}", monotonic()
    logged_s = _logged_s.get(kind)
    if logged_s is None or now_s - logged_s >= _QUIET_S:
        _logged_s.note(kind, now_s)
        log.error("task.failed", task=name, exc_info=error)
