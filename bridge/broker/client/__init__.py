"""Connects to RabbitMQ over AMQP: connections, channels, publishes and deliveries. No other package of the bridge
imports aiormq, pamqp or aio-pika."""
