"""Defines the connection to RabbitMQ that the topology needs, so that it works with any AMQP library."""

from __future__ import annotations

from collections.abc import Mapping
from ssl import SSLContext
from typing import Any, Protocol

from pamqp.base import Frame


class Channel(Protocol):
    """A plain channel: it declares nothing again by itself. RabbitMQ closes it when it refuses a call."""

    async def rpc(self, frame: Frame) -> Frame | None:
        """Calls the AMQP method that `frame` holds, and returns the frame of the answer. Raises aio-pika's
        `ChannelClosed` if RabbitMQ refuses the call."""
        ...

    async def close(self) -> None: ...


class Connection(Protocol):
    """An open connection to RabbitMQ. `url`: the address, with user and password."""

    @property
    def url(self) -> str: ...

    @property
    def tls(self) -> SSLContext | None: ...

    @property
    def server_properties(self) -> Mapping[str, Any]: ...

    async def open_channel(self) -> Channel: ...
