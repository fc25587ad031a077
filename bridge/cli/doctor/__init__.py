"""Finds what is wrong with the settings, RabbitMQ, Redis and a running bridge: `checks/` judges what `facts/` finds."""
