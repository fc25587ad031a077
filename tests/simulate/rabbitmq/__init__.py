"""Simulates a RabbitMQ for deterministic tests: it takes and gives bytes, and has no sockets, threads or clock."""

from tests.simulate.rabbitmq.broker import Broker
from tests.simulate.rabbitmq.connection import Connection

__all__ = ["Broker", "Connection"]
