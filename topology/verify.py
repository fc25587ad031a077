"""Whether the broker can keep the promises, and whether what stands on it is the plan."""

import asyncio
import re
from collections.abc import Callable, Mapping
from ssl import SSLContext
from typing import Any, Final
from uuid import uuid4

import aio_pika
import httpx2
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelClosed, ConnectionClosed
from yarl import URL

from topology import compare
from topology.channels import look_at_all, plain_channel
from topology.errors import BrokerUnsuitable
from topology.plan import Exchange, Plan, Queue
from topology.report import Finding, Report, error, warning

TIMEOUT_S: Final = 60.0

OLDEST: Final = (3, 10, 0)
"""The first version with TTL and at-least-once dead-lettering on quorum queues."""

BROKEN: Final = ((3, 13, 0), (3, 13, 2))
"""First and last version with the order of deaths broken: https://github.com/rabbitmq/rabbitmq-server/pull/11174."""

FLAGS_ALWAYS_ON: Final = (3, 12, 0)
"""From here on a node does not start unless the feature flags the topology needs are on."""

CAPABILITIES: Final = ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify")


def check_server(properties: Mapping[str, Any]) -> None:
    """Judge a broker by the server properties of an AMQP connection. BrokerUnsuitable: it can not keep the promises."""
    product = _text(properties.get("product", "unknown"))
    if product != "RabbitMQ":
        raise BrokerUnsuitable(what="product", found=product, required="RabbitMQ")
    said = _text(properties.get("version", "unknown"))
    version = _version(properties)
    if version < OLDEST:
        raise BrokerUnsuitable(what="version", found=said, required="3.10 or newer")
    if BROKEN[0] <= version <= BROKEN[1]:
        raise BrokerUnsuitable(what="version", found=said, required="3.13.3 or newer")
    capabilities = properties.get("capabilities") or {}
    for name in CAPABILITIES:
        if capabilities.get(name) is not True:
            raise BrokerUnsuitable(what=f"capability {name}", found="absent", required="offered")


async def verify(
    connection: AbstractConnection, plan: Plan, *, management_url: str | None = None, timeout_s: float = TIMEOUT_S
) -> Report:
    """Look at the broker without changing it.

    Over AMQP: version, capabilities, feature flags, and whether each exchange and queue is there. With the URL of the
    management API (user and password in it) also properties, arguments, bindings, and policies that would shorten a
    delay or lose a message. TimeoutError: not done within `timeout_s`.
    """
    async with asyncio.timeout(timeout_s):
        findings = await _server(connection)
        findings += await _missing(connection, plan)
        looked_at = ["version", "feature flags", f"{len(plan.exchanges)} exchanges", f"{len(plan.queues)} queues"]
        if management_url is not None:
            for told in (
                await managed(management_url, await vhost_of(connection), plan, tls=connection.kwargs.get("context"))
            ).values():
                findings += told
            looked_at += ["arguments", f"{len(plan.bindings)} bindings", "policies"]
        else:
            looked_at.append("not at arguments, bindings and policies: no management URL was given")
    by_severity = sorted(findings, key=lambda finding: finding.severity)
    return Report(findings=tuple(dict.fromkeys(by_severity)), looked_at=tuple(looked_at))


async def _server(connection: AbstractConnection) -> list[Finding]:
    async with plain_channel(connection) as channel:
        properties, url = channel.connection.server_properties or {}, channel.connection.url
    try:
        check_server(properties)
    except BrokerUnsuitable as exc:
        return [error(exc.what, found=exc.found, required=exc.required)]
    if _version(properties) < FLAGS_ALWAYS_ON and not await _streams_enabled(url, connection.kwargs.get("context")):
        return [error("feature flag stream_queue", found="disabled", required="enabled")]
    return []


async def _streams_enabled(url: URL, ssl_context: SSLContext | None) -> bool:
    # An exclusive stream is refused either way: as a bad argument (the channel goes) when streams are known, as an
    # internal error (the connection goes) when the feature flag is off. So nothing is ever declared, and the probe
    # needs a connection of its own.
    probe = await aio_pika.connect(url, ssl_context=ssl_context)
    async with probe, plain_channel(probe) as channel:
        try:
            name = f"probe-{uuid4().hex}"
            await channel.queue_declare(name, durable=True, exclusive=True, arguments={"x-queue-type": "stream"})
        except ConnectionClosed:
            return False
        except ChannelClosed:
            return True
    return True


async def _missing(connection: AbstractConnection, plan: Plan) -> list[Finding]:
    items: tuple[Exchange | Queue, ...] = (*plan.exchanges, *plan.queues)
    return [
        error(f"{type(item).__name__.lower()} {item.name}", found="missing", required="declared")
        for item, standing in (await look_at_all(connection, items)).items()
        if standing is None
    ]


async def managed(
    management_url: str, vhost: str, plan: Plan, *, often: bool = False, tls: SSLContext | None = None
) -> dict[str, list[Finding]]:
    """What the management API tells, by question. `often`: only what can change on what stands, with small answers:
    bindings and policies."""
    questions: dict[str, Callable[[compare.Answer], list[Finding]]] = {
        "bindings/VHOST": lambda answer: compare.bindings(plan, answer),
        "policies/VHOST": lambda answer: compare.policies(plan, answer, kind="policy"),
        "operator-policies/VHOST": lambda answer: compare.policies(plan, answer, kind="operator policy"),
    }
    if not often:
        questions |= {
            "feature-flags": compare.flags,
            "exchanges/VHOST": lambda answer: compare.exchanges(plan, answer),
            "queues/VHOST": lambda answer: compare.queues(plan, answer),
        }
    findings = {}
    given = httpx2.URL(management_url)
    # An error names the URL, and the password is not to be in it.
    base, login = given.copy_with(userinfo=b""), (given.username, given.password)
    async with httpx2.AsyncClient(auth=login, verify=tls or True) as client:
        for question, judge in questions.items():
            path = question.replace("VHOST", _quoted(vhost))
            try:
                response = await client.get(base.join(f"/api/{path}"))
                response.raise_for_status()
            except httpx2.HTTPError as exc:
                findings[question] = [warning(f"management API {path}", found=exc, required="an answer")]
            else:
                findings[question] = judge(response.json())
    return findings


async def vhost_of(connection: AbstractConnection) -> str:
    """The virtual host of an open connection."""
    async with plain_channel(connection) as channel:
        return channel.connection.url.path[1:] or "/"


def _quoted(vhost: str) -> str:
    return "".join(c if c.isalnum() and c.isascii() else "".join(f"%{b:02X}" for b in c.encode()) for c in vhost)


def _version(properties: Mapping[str, Any]) -> tuple[int, ...]:
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", _text(properties.get("version", "")))
    return tuple(int(number or 0) for number in numbers.groups()) if numbers else (0, 0, 0)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
