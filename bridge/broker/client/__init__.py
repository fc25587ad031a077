"""Talks AMQP: the only home of aiormq, pamqp and aio-pika in the bridge."""
