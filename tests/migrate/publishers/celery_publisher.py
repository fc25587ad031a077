"""Publishes as applications with Celery do: kombu declares exchange and queue before the first publish."""

import os
import time
from typing import Any

from celery import Celery
from kombu import Exchange, Queue

given = os.environ
app: Any = Celery(broker=given["AMQP_URL"])
app.conf.broker_transport_options = {"confirm_publish": True}
declares = bool(given.get("DECLARES"))
# With the changed name kombu must declare nothing: it would bind the queue to the ingress, and the queue would get each
# message at once. The type has to be named, as Celery sends past an exchange of type direct.
old = {"type": "x-delayed-message", "arguments": {"x-delayed-type": given["KIND"]}}
kind = old if declares else {"type": "topic"}
exchange = Exchange(given["PUBLISH_TO"], durable=True, no_declare=not declares, **kind)
app.conf.task_queues = [
    Queue(given["QUEUE"], exchange, routing_key=given["KEY"], durable=True, no_declare=not declares)
]
app.conf.task_create_missing_queues = False

for number in range(int(given["COUNT"])):
    delay = int(given["DELAY_MS"]) + 50 * number
    app.send_task(
        "remind",
        args=[f"at:{number}:{time.time_ns() // 1_000_000}:{delay}"],
        headers={"x-delay": delay},
        ignore_result=True,
        queue=given["QUEUE"],
    )
