"""Private RabbitMQ and Redis servers on free loopback ports: for development, tests and benchmarks.

Nothing here touches a server that this package did not start itself.
"""

from bridge.local.cluster import RabbitCluster
from bridge.local.errors import LocalError
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode

__all__ = ["LocalError", "RabbitCluster", "RabbitNode", "RedisNode"]
