"""Exports a plan as a RabbitMQ definitions file, for operators who import the topology in place of `topology apply`."""

from typing import Any

from topology.plan import Plan


def export(plan: Plan, vhost: str = "/") -> dict[str, Any]:
    """Returns exchanges, queues and bindings for one virtual host, which must exist before the file is imported.

    The format is described at https://www.rabbitmq.com/docs/definitions.
    """
    return {
        "exchanges": [
            {
                "name": exchange.name,
                "vhost": vhost,
                "type": exchange.type,
                "durable": True,
                "auto_delete": False,
                "internal": False,
                "arguments": dict(exchange.arguments),
            }
            for exchange in plan.exchanges
        ],
        "queues": [
            {
                "name": queue.name,
                "vhost": vhost,
                "durable": True,
                "auto_delete": False,
                "arguments": dict(queue.arguments),
            }
            for queue in plan.every_queue
        ],
        "bindings": [
            {
                "source": binding.source,
                "vhost": vhost,
                "destination": binding.destination,
                "destination_type": binding.destination_type,
                "routing_key": binding.key,
                "arguments": {},
            }
            for binding in plan.bindings
        ],
    }
