"""Provides a virtual host for each test, as the other tests of the topology have it."""

from tests.integration.topology.conftest import Broker, broker

__all__ = ["Broker", "broker"]
