"""Speaks AMQP. No other package of the bridge imports aiormq, pamqp or aio-pika."""
