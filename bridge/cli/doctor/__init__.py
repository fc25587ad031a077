"""Finds what is wrong with the settings, RabbitMQ, Redis and a running bridge: `checks/` judges the facts that `facts/`
gathers."""
