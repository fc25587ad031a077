"""Finds what is wrong with the settings, RabbitMQ, Redis and a running bridge: `facts/` looks, `checks/` decides."""
