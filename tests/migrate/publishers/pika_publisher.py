"""Publishes as applications with pika do."""

import os
import time
from typing import Any

import pika  # type: ignore[import-not-found]

given = os.environ
connection: Any = pika.BlockingConnection(pika.URLParameters(given["AMQP_URL"]))
channel = connection.channel()
if given.get("DECLARES"):
    channel.exchange_declare(
        given["EXCHANGE"], "x-delayed-message", durable=True, arguments={"x-delayed-type": given["KIND"]}
    )
    channel.queue_declare(given["QUEUE"], durable=True)
    channel.queue_bind(given["QUEUE"], given["EXCHANGE"], given["KEY"])
channel.confirm_delivery()
for number in range(int(given["COUNT"])):
    delay = int(given["DELAY_MS"]) + 50 * number
    channel.basic_publish(
        given["PUBLISH_TO"],
        given["KEY"],
        f"at:{number}:{time.time_ns() // 1_000_000}:{delay}".encode(),
        pika.BasicProperties(delivery_mode=2, headers={"x-delay": delay}),
        mandatory=True,
    )
connection.close()
