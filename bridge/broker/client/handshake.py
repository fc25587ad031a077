"""Opens a connection to RabbitMQ and logs in."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping
from ssl import SSLContext
from typing import Final, TypeVar

from pamqp.base import Frame
from pamqp.commands import Connection
from pamqp.common import FieldTable

from bridge.broker.client.transport import Transport
from bridge.model.errors import BrokerUnavailable
from bridge.settings.amqp_login import Login
from topology.errors import LoginRefused, VhostRefused

Method = TypeVar("Method", bound=Frame)

_CAPABILITIES: Final[FieldTable] = {
    "authentication_failure_close": True,  # a Close with the reason, where RabbitMQ would cut the connection
    "basic.nack": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
    "publisher_confirms": True,
}
_ACCESS_REFUSED: Final = 403
_NOT_ALLOWED: Final = 530
_PLATFORM: Final = f"{platform.python_implementation()} {platform.python_version()}"


async def connect(login: Login, *, tls: SSLContext | None, about: Mapping[str, object]) -> Transport:
    """Opens a connection to RabbitMQ. `tls`: the TLS context for a login with TLS; None: Python's default. `about`:
    further properties of this client, which RabbitMQ shows to operators.

    Raises:
        LoginRefused: RabbitMQ does not know the user, the password is wrong, or RabbitMQ lacks the login's mechanism.
        VhostRefused: the virtual host does not exist, or the user has no rights in it.
        BrokerUnavailable: the server speaks no AMQP 0-9-1, or closed the connection.
        OSError: the server can't be reached, or TLS failed.
    """
    _, transport = await asyncio.get_running_loop().create_connection(
        Transport, login.host, login.port, ssl=(tls or True) if login.tls else None
    )
    try:
        await _log_in(transport, login, about)
    except BaseException:
        transport.abort(BrokerUnavailable("the connection was not opened"))
        raise
    return transport


async def _log_in(transport: Transport, login: Login, about: Mapping[str, object]) -> None:
    start = await _next(transport, Connection.Start)
    if login.mechanism not in (start.mechanisms or "").split():
        raise LoginRefused(f"it offers the logins {start.mechanisms}, and the URL asks for {login.mechanism}")
    transport.server_properties = {**(start.server_properties or {})}
    transport.call(
        Connection.StartOk(
            client_properties={"platform": _PLATFORM, "capabilities": {**_CAPABILITIES}, **about},  # type: ignore[dict-item]
            mechanism=login.mechanism,
            response=login.response,
        )
    )
    try:
        tune = await _next(transport, Connection.Tune)
    except BrokerUnavailable:
        if (refused := transport.ended_by) is not None and refused.code == _ACCESS_REFUSED:
            raise LoginRefused(f"the user or the password is wrong: {refused.text}") from None
        raise
    transport.limit(largest_frame=tune.frame_max or 0, channels=tune.channel_max or 0)
    transport.call(
        Connection.TuneOk(channel_max=tune.channel_max, frame_max=transport.largest_frame, heartbeat=login.heartbeat_s)
    )
    transport.call(Connection.Open(virtual_host=login.virtual_host))
    try:
        await _next(transport, Connection.OpenOk)
    except BrokerUnavailable:
        if (refused := transport.ended_by) is not None and refused.code == _NOT_ALLOWED:
            raise VhostRefused(f"RabbitMQ does not open the virtual host: {refused.text}") from None
        raise
    transport.keep_alive(login.heartbeat_s)


async def _next(transport: Transport, kind: type[Method]) -> Method:
    method = await transport.answer()
    if not isinstance(method, kind):
        raise BrokerUnavailable(f"RabbitMQ answered {method.name} where the bridge needs {kind.name}")
    return method
