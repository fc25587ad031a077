"""Keeps Celery's tasks with an `eta` or a `countdown` in a bridge until they are due.

    app = Celery("shop", broker="amqp://…")
    install(app)
    remind.apply_async(countdown=7200)

`DelayedTasks` looks up, lists, moves and deletes such tasks by their ids. When a task is due, it reaches its worker's
queue. So the worker needs no `install`, unless its tasks send or retry tasks with a delay.
"""

from delaybridge_client.celery.publishing import DelayedAMQP, install
from delaybridge_client.celery.tasks import DelayedTask, DelayedTasks

__all__ = ["DelayedAMQP", "DelayedTask", "DelayedTasks", "install"]
