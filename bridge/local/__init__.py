"""Runs private RabbitMQ and Redis servers on free loopback ports, for development, tests and benchmarks.

This package touches no server that it did not start.
"""

from bridge.local.errors import LocalError
from bridge.local.rabbit_cluster import RabbitCluster
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.redis_cluster import RedisCluster
from bridge.local.redis_sentinels import RedisSentinels

__all__ = ["LocalError", "RabbitCluster", "RabbitNode", "RedisCluster", "RedisNode", "RedisSentinels"]
