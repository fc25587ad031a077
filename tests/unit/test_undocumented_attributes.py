"""Names every attribute of a library that the bridge relies on and that the library's documentation does not promise.

When an upgrade takes one away, the test with its name fails. Then read the code that uses it: some of these attributes
fail late, under load or in a failover, where no other test may look.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import lru_cache
from pathlib import Path
from typing import Any

import aio_pika
import aio_pika.abc
import aiormq
import aiormq.abc
import aiormq.exceptions
import pamqp.base
import pamqp.header
import pytest
import redis.asyncio.client
import redis.asyncio.connection
import redis.asyncio.sentinel
import redis.crc
import redis.exceptions
import redis.maint_notifications
import uvicorn
import uvicorn.protocols.http.flow_control
import uvicorn.protocols.http.httptools_impl
import uvicorn.server

PROJECT = Path(__file__).parents[2]
CHANNEL = "bridge/broker/client/channel.py"
DECODE = "bridge/broker/client/decode_properties.py"
HANDSHAKE = "bridge/broker/client/handshake.py"
PUBLISHER = "bridge/broker/client/publisher.py"
MOVER = "topology/mover.py"
PIKA = "topology/connect.py"
PROTOCOL = "bridge/http/server/protocol.py"
SERVER = "bridge/http/server/server.py"
CONNECT = "bridge/store/servers/connect.py"
CLUSTER = "bridge/store/servers/cluster.py"
SENTINEL = "bridge/store/servers/sentinel.py"
REDIS_SERVER = "bridge/store/servers/server.py"
REDIS_TLS = "bridge/store/servers/tls.py"
REDIS_URL = "bridge/settings/redis_url.py"

HTTPTOOLS = uvicorn.protocols.http.httptools_impl

RELIED_ON: list[tuple[Any, str, tuple[str, ...]]] = [
    # aio-pika: the connection of aiormq below its own, whose channels do not leak (mosquito/aio-pika#490, open).
    (aio_pika.abc.AbstractConnection, "transport", (PIKA,)),
    (aio_pika.abc.UnderlayConnection, "connection", (PIKA,)),
    # aiormq: a Close-Ok that finds no room is dropped; a related report is mosquito/aiormq#70, open.
    (aiormq.Connection, "FRAME_BUFFER_SIZE", (PIKA,)),
    # aiormq and pamqp: no issue upstream is known that asks to document these.
    (aiormq.abc.AbstractConnection, "server_properties", (PIKA,)),
    (aiormq.Channel, "rpc", (PIKA,)),
    (aiormq.exceptions, "ChannelAccessRefused", (CHANNEL, PUBLISHER)),
    (aiormq.Channel, "basic_cancel", (MOVER,)),
    (aiormq.abc.DeliveredMessage, "delivery_tag", (MOVER,)),
    (aiormq.abc.DeliveredMessage, "exchange", (MOVER,)),
    (pamqp.base.Frame, "name", (CHANNEL, HANDSHAKE)),
    (pamqp.base.Frame, "valid_responses", (CHANNEL,)),
    (pamqp.header.ContentHeader, "properties", (DECODE,)),
    # uvicorn: its protocol for HTTP is subclassed, and its server's shutdown.
    *(
        (HTTPTOOLS.HttpToolsProtocol, name, (PROTOCOL,))
        for name in (
            "connection_made",
            "data_received",
            "on_headers_complete",
            "on_body",
            "on_response_complete",
            "send_400_response",
            "_unset_keepalive_if_required",
            "connections",
            "cycle",
            "flow",
            "headers",
            "loop",
            "pipeline",
            "scope",
            "server_state",
            "transport",
            "url",
        )
    ),
    *(
        (HTTPTOOLS.RequestResponseCycle, name, (PROTOCOL,))
        for name in (
            "disconnected",
            "message_event",
            "more_body",
            "response_complete",
            "response_started",
        )
    ),
    (HTTPTOOLS.RequestResponseCycle, "keep_alive", (SERVER,)),
    (uvicorn.protocols.http.flow_control.FlowControl, "read_paused", (PROTOCOL,)),
    (uvicorn.protocols.http.flow_control.FlowControl, "resume_reading", (PROTOCOL,)),
    (uvicorn.server.ServerState, "default_headers", (PROTOCOL, SERVER)),
    (uvicorn.server.ServerState, "connections", (SERVER,)),
    (uvicorn.Server, "main_loop", (SERVER,)),
    (uvicorn.Server, "shutdown", (SERVER,)),
    (uvicorn.Server, "should_exit", (SERVER,)),
    (uvicorn.Server, "server_state", (SERVER,)),
    # redis-py: packed commands are sent and answers read over connections of its pools, without its clients.
    (redis.asyncio.connection, "parse_url", (REDIS_URL,)),
    (redis.asyncio.connection, "SSLConnection", (CONNECT, REDIS_SERVER, REDIS_TLS)),
    (redis.asyncio.connection.SSLConnection, "ssl_context", (REDIS_TLS,)),
    (redis.asyncio.connection.RedisSSLContext, "context", (REDIS_TLS,)),
    (redis.asyncio.connection.Connection, "send_packed_command", (REDIS_SERVER,)),
    (redis.asyncio.connection.Connection, "read_response", (REDIS_SERVER,)),
    (redis.asyncio.connection.Connection, "disconnect", (REDIS_SERVER,)),
    (redis.asyncio.connection.ConnectionPool, "connection_class", (REDIS_SERVER, REDIS_TLS)),
    (redis.asyncio.connection.ConnectionPool, "connection_kwargs", (REDIS_TLS,)),
    (redis.asyncio.connection.ConnectionPool, "get_connection", (REDIS_SERVER,)),
    (redis.asyncio.connection.ConnectionPool, "release", (REDIS_SERVER,)),
    (redis.asyncio.connection.ConnectionPool, "_available_connections", (REDIS_SERVER,)),
    (redis.asyncio.sentinel.SentinelConnectionPool, "get_master_address", (SENTINEL,)),
    (redis.asyncio.sentinel.SentinelConnectionPool, "master_address", (SENTINEL,)),
    (redis.asyncio.sentinel.Sentinel, "sentinels", (SENTINEL,)),
    (redis.asyncio.client.Redis, "connection_pool", (SENTINEL,)),
    (redis.exceptions.MovedError, "slot_id", (CLUSTER,)),
    (redis.exceptions.AskError, "host", (CLUSTER,)),
    (redis.exceptions.AskError, "port", (CLUSTER,)),
    (redis.crc, "key_slot", (CLUSTER,)),
]

PARAMETERS: list[tuple[Any, str, str]] = [
    (redis.asyncio.connection.Connection.read_response, "disable_decoding", REDIS_SERVER),
    (redis.asyncio.connection.Connection.read_response, "timeout", REDIS_SERVER),
    (redis.asyncio.connection.Connection.disconnect, "nowait", REDIS_SERVER),
    (redis.asyncio.connection.ConnectionPool, "maint_notifications_config", CONNECT),
    (redis.maint_notifications.MaintNotificationsConfig, "enabled", CONNECT),
]
"""Parameters of functions, and the file that passes them."""


def name_of(owner: Any) -> str:
    module = getattr(owner, "__module__", "")
    return f"{module}.{owner.__qualname__}" if module else str(owner.__name__)


@pytest.mark.parametrize(
    ("owner", "attribute", "users"),
    [pytest.param(*entry, id=f"{name_of(entry[0])}.{entry[1]}") for entry in RELIED_ON],
)
def test_attribute_exists(owner: Any, attribute: str, users: tuple[str, ...]) -> None:
    assert has(owner, attribute), f"{name_of(owner)} has no {attribute} any more, which {', '.join(users)} rely on"


@pytest.mark.parametrize(
    ("function", "parameter", "user"),
    [pytest.param(*entry, id=f"{entry[0].__qualname__}({entry[1]})") for entry in PARAMETERS],
)
def test_parameter_exists(function: Any, parameter: str, user: str) -> None:
    assert parameter in inspect.signature(function).parameters, f"{user} passes {parameter} to {function.__qualname__}"


@pytest.mark.parametrize(
    ("attribute", "user"),
    sorted({(name, user) for _, name, users in RELIED_ON for user in users} | {(n, user) for _, n, user in PARAMETERS}),
)
def test_attribute_is_still_used(attribute: str, user: str) -> None:
    text = (PROJECT / user).read_text()

    assert re.search(rf"\b{attribute}\b", text), f"{user} does not use {attribute} any more: take it off the table"


def has(owner: Any, attribute: str) -> bool:
    """Returns whether a module, a class or its instances have the attribute."""
    if hasattr(owner, attribute) or attribute in inspect.get_annotations(owner):
        return True
    classes = owner.__mro__ if inspect.isclass(owner) else ()
    return any(attribute in _assigned_by(one) for one in classes if one.__module__ != "builtins")


@lru_cache
def _assigned_by(owner: type) -> set[str]:
    """Returns the attributes that the methods of a class assign."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(owner)))
    except (OSError, TypeError):
        return set()  # a class that is not written in Python
    return {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)}
