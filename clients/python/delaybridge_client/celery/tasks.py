"""Looks up, lists, moves and deletes the tasks that wait in a bridge, by their ids."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, Self, TypeVar

from celery import Celery

from delaybridge_client import operations
from delaybridge_client.celery.delays import topic_of
from delaybridge_client.client import SyncClient
from delaybridge_client.errors import Conflict, NotFound
from delaybridge_client.values.message import Message

T = TypeVar("T")
_RECORDED_S: Final = 2.0  # after the broker's confirm, the bridge has the record within a second
_POLL_S: Final = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedTask:
    """A task that waits in a bridge, or has waited there. `args` and `kwargs` are None if the body is not JSON.

    `message.id` is the task's id, unless another message had that id: then the bridge has made a new id. `released`:
    the bridge has published the task to its queue. The bridge does not learn the result of the task: ask Celery.
    """

    id: str
    name: str
    eta: datetime
    args: list[Any] | None
    kwargs: Mapping[str, Any] | None
    state: str
    message: Message

    @classmethod
    def of(cls, message: Message) -> Self:
        is_body = isinstance(message.body, list) and len(message.body) == 3
        args, kwargs, _ = message.body if is_body else (None, None, None)
        return cls(
            id=str(message.headers.get("id") or message.id),
            name=str(message.headers.get("task", "")),
            eta=message.due_at,
            args=args,
            kwargs=kwargs,
            state=message.state,
            message=message,
        )

    @property
    def released(self) -> bool:
        return self.state == "acked"


class DelayedTasks:
    """The delayed tasks of an app. `queue` of each call: Celery's queue; None: the app's default queue.

    A task that was just sent has its record in the bridge within a second. So each call about one task waits up to two
    seconds before it raises `NotFound`.
    """

    def __init__(self, app: Celery, client: SyncClient) -> None:
        self._app = app
        self._client = client

    def waiting(self, queue: str | None = None) -> Iterator[DelayedTask]:
        """Returns the tasks that wait, the earliest due first."""
        found = operations.list_messages(self._topic(queue), state=["waiting"])
        return map(DelayedTask.of, self._client.every(found))

    def look_up(self, task_id: str, *, queue: str | None = None) -> DelayedTask:
        """Returns the task. The bridge keeps an ended task for its retention time, by default an hour."""
        found = _recorded(lambda: self._client.look_up(self._topic(queue), task_id))
        if found.state != "waiting":
            found = self._under_another_id(task_id, queue) or found
        return DelayedTask.of(found)

    def move(
        self,
        task_id: str,
        *,
        eta: datetime | None = None,
        countdown: float | None = None,
        queue: str | None = None,
    ) -> DelayedTask:
        """Changes when the task is due. `countdown`: in seconds from now; 0 makes the task due now.

        Raises:
            Conflict: the task is released already.
        """
        delay = None if countdown is None else timedelta(seconds=countdown)
        topic = self._topic(queue)
        return self._change(task_id, queue, lambda id: self._client.move(topic, id, deliver_at=eta, delay=delay))

    def delete(self, task_id: str, *, queue: str | None = None) -> DelayedTask:
        """Deletes the task: no worker gets it. Its `AsyncResult` is then REVOKED, if the app has a result backend.

        Raises:
            Conflict: the task is released already. `app.control.revoke` may still stop it.
        """
        deleted = self._change(task_id, queue, lambda id: self._client.delete(self._topic(queue), id))
        self._app.backend.mark_as_revoked(task_id, "deleted before it was due")
        return deleted

    def _change(self, task_id: str, queue: str | None, change: Callable[[str], Message]) -> DelayedTask:
        try:
            return DelayedTask.of(_recorded(lambda: change(task_id)))
        except Conflict:
            other = self._under_another_id(task_id, queue)
            if other is None:
                raise
            return DelayedTask.of(change(other.id))

    def _under_another_id(self, task_id: str, queue: str | None) -> Message | None:
        """Returns the task's waiting message if it has another id than the task; None: no such message.

        The bridge makes another id if a message with the task's id is still live. This happens if a retry arrives
        before the record of the former try has ended. The method searches through all tasks that wait.
        """
        waiting = (task.message for task in self.waiting(queue) if task.id == task_id)
        return next(waiting, None)

    def _topic(self, queue: str | None) -> str:
        namespace = self._app.conf.get("delaybridge_namespace", "celery")
        return topic_of(namespace, queue or self._app.conf.task_default_queue)


def _recorded(call: Callable[[], T]) -> T:
    """Repeats a call about one task until the bridge has the task's record, for up to two seconds."""
    give_up_at = time.monotonic() + _RECORDED_S
    while True:
        try:
            return call()
        except NotFound:
            if time.monotonic() > give_up_at:
                raise
        time.sleep(_POLL_S)
