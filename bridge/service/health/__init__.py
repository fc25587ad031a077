"""Finds out whether the bridge works: its loops, RabbitMQ and Redis."""
