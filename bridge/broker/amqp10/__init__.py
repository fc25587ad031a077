"""Reads queues over AMQP 1.0, for the messages that RabbitMQ can't give to an AMQP 0.9.1 client."""
