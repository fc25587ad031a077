"""Defines a Celery app for tests, as an application would: tasks on three queues, and the bridge installed."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

from delaybridge_client.celery import install

QUORUM = {"x-queue-type": "quorum"}

app = Celery("shop", broker=os.environ["CELERY_TEST_BROKER"], backend=os.environ["CELERY_TEST_BACKEND"])
app.conf.update(
    task_default_queue="shop",
    task_queues=[
        Queue("shop", Exchange("shop"), routing_key="shop"),
        Queue("mails", Exchange("mails"), routing_key="mails.out"),
        Queue("reports", Exchange("reports", "topic"), routing_key="reports.out", queue_arguments=QUORUM),
    ],
    broker_connection_retry_on_startup=True,
    broker_native_delayed_delivery_queue_type="classic",  # 28 queues, which no test uses
)
install(app, least=timedelta(seconds=1))


@app.task(bind=True)  # type: ignore[untyped-decorator]
def shown(self: Any, *args: Any, **kwargs: Any) -> dict[str, Any]:
    """Returns what the worker got."""
    request = self.request
    return {
        "args": args,
        "kwargs": kwargs,
        "id": request.id,
        "eta": request.eta,
        "retries": request.retries,
        "correlation_id": request.correlation_id,
        "root_id": request.root_id,
        "timelimit": request.timelimit,
        "routing_key": request.delivery_info["routing_key"],
        "headers": sorted(request.headers or {}),
    }


@app.task(bind=True, max_retries=1)  # type: ignore[untyped-decorator]
def failing_once(self: Any, countdown: float) -> int:
    """Fails in its first run, and is tried again after a delay."""
    if self.request.retries == 0:
        raise self.retry(countdown=countdown)
    return int(self.request.retries)
