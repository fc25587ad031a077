"""Sends a Celery task that is due in two hours, lists what waits, and deletes it.

python celery_later.py amqp://guest:guest@127.0.0.1:5672 http://127.0.0.1:8080
"""

from __future__ import annotations

import sys

from celery import Celery

from delaybridge_client import SyncClient
from delaybridge_client.celery import DelayedTasks, install


def main(broker: str, bridge: str) -> None:
    app = Celery("shop", broker=broker)
    install(app)
    result = app.send_task("shop.remind", args=[42], countdown=7_200)
    with SyncClient(bridge) as client:
        tasks = DelayedTasks(app, client)
        print(tasks.look_up(result.id).state)
        for task in tasks.waiting():
            print(task.name, task.args)
        print(tasks.delete(result.id).state)


if __name__ == "__main__":
    main(*sys.argv[1:])
