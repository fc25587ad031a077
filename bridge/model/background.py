"""Begins tasks that nobody awaits, and logs their errors, which would be lost otherwise.

asyncio reports such an error only when the task is garbage-collected. The report may come hours later, and does not
have the log's form.
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
"""The least time between two log lines about one kind of error of one task name."""
_logged_s: Final[Recent[str, float]] = Recent(32)  # by work and kind of error


def begin(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """Begins a task that works for no single request, and logs the error that ends it. The caller must keep the task.

    `name`: how the log calls the task.
    """
    task = log_scope.shared_task(work)
    task.add_done_callback(partial(ended, name))
    return task


def ended(name: str, task: asyncio.Task[Any]) -> None:
    """Logs the error of a task that has ended, if it has one."""
    if not task.cancelled() and (error := task.exception()) is not None:
        failed(name, error)


def failed(name: str, error: BaseException) -> None:
    """Logs an error of the task `name`, at most once a minute for each kind of error.

    Skips `Unavailable`: each caller that needs the absent server reports the absence itself.
    """
    if isinstance(error, Unavailable):
        return
    kind, now_s = f"{name} {type(error).__name__}", monotonic()
    logged_s = _logged_s.get(kind)
    if logged_s is None or now_s - logged_s >= _QUIET_S:
        _logged_s.note(kind, now_s)
        log.error("task.failed", task=name, exc_info=error)
