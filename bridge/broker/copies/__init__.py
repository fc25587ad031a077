"""Reads and writes a message copy as AMQP carries it. Pure."""
