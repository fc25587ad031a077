"""Gives the topology's functions a connection of aio-pika that a test has opened."""

from __future__ import annotations

from aio_pika.abc import AbstractConnection

from topology.connect import PikaConnection


def pika(connection: AbstractConnection) -> PikaConnection:
    return PikaConnection(connection, str(getattr(connection, "url", "")), None)
