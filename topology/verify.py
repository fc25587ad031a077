"""Checks whether a broker can keep the promises, and whether it has the objects of the plan."""

import asyncio
import re
from collections.abc import Callable, Mapping
from itertools import chain
from ssl import SSLContext
from typing import Any, Final
from urllib.parse import unquote
from uuid import uuid4

import httpx2
from aio_pika.exceptions import ChannelClosed, ConnectionClosed
from pamqp import commands
from yarl import URL

from topology import compare
from topology.channels import look_at_all, plain_channel
from topology.connect import connect, losses_raised
from topology.connection import Connection
from topology.errors import BrokerUnsuitable
from topology.management import management, quoted
from topology.plan import Exchange, Plan, Queue
from topology.report import Difference, Report, error, unread

TIMEOUT_S: Final = 60.0

OLDEST: Final = (3, 10, 0)
"""The first version of RabbitMQ with message TTL and at-least-once dead-lettering for quorum queues."""

BROKEN: Final = ((3, 13, 0), (3, 13, 2))
"""The first and the last version of RabbitMQ that writes `x-death` in a wrong order:
https://github.com/rabbitmq/rabbitmq-server/pull/11174."""

FLAGS_ALWAYS_ON: Final = (3, 12, 0)
"""From this version on, a node starts only if the feature flags that the topology needs are enabled."""

CAPABILITIES: Final = ("publisher_confirms", "exchange_exchange_bindings", "basic.nack", "consumer_cancel_notify")


_SUPPORTED: Final = "Use a RabbitMQ that docs/versions.md lists"
_UNREAD: Final = ", as the management API did not answer"
MOST_EXPIRED: Final = "columns=name,messages_dlx&page=1&page_size=20&sort=messages_dlx&sort_reverse=true"
_DECLARE: Final = "Declare it with `delaybridge topology apply`"
_MOVE: Final = "Stop the bridges of that version, and move its messages with `delaybridge topology drain`"


def check_server(properties: Mapping[str, Any]) -> None:
    """Checks a broker by the server properties of an AMQP connection.

    Raises:
        BrokerUnsuitable: the broker can't keep the promises.
    """
    product = _text(properties.get("product", "unknown"))
    if product != "RabbitMQ":
        raise BrokerUnsuitable(what="product", found=product, required="RabbitMQ")
    found = _text(properties.get("version", "unknown"))
    version = _version(properties)
    if version < OLDEST:
        raise BrokerUnsuitable(what="version", found=found, required="3.10 or newer")
    if BROKEN[0] <= version <= BROKEN[1]:
        raise BrokerUnsuitable(what="version", found=found, required="3.13.3 or newer")
    capabilities = properties.get("capabilities") or {}
    for name in CAPABILITIES:
        if capabilities.get(name) is not True:
            raise BrokerUnsuitable(what=f"capability {name}", found="absent", required="offered")


async def verify(
    connection: Connection, plan: Plan, *, management_url: str | None = None, timeout_s: float = TIMEOUT_S
) -> Report:
    """Compares the broker with the plan, and returns the findings. Changes nothing.

    AMQP shows the version, the capabilities, the feature flags, and which exchanges and queues exist. With
    `management_url` (user and password in it) it also checks properties, arguments, bindings, and policies that would
    shorten a delay or lose a message.

    Raises:
        TimeoutError: not done within `timeout_s`.
    """
    async with asyncio.timeout(timeout_s):
        findings = await unsuitable(connection)
        findings += await _missing(connection, plan)
        findings += await _barring(connection, plan)
        checked = ["version", "feature flags", f"{len(plan.exchanges)} exchanges", f"{len(plan.queues)} queues"]
        skipped: list[str] = []
        if management_url is not None:
            answers = await managed(management_url, vhost_of(connection), plan, tls=connection.tls)
            findings += chain.from_iterable(answers.values())
            for question, found in answers.items():
                no_answer = any(finding.unread for finding in found)
                (skipped if no_answer else checked).append(_compared(question, plan) + _UNREAD * no_answer)
        else:
            skipped.append("arguments, bindings and policies, as there is no management URL; set BRIDGE_MANAGEMENT_URL")
    by_severity = sorted(findings, key=lambda finding: finding.severity)
    return Report(findings=tuple(dict.fromkeys(by_severity)), checked=tuple(checked), skipped=tuple(skipped))


async def unsuitable(connection: Connection) -> list[Difference]:
    """Returns why the broker can't keep the promises: its version, a capability, or a feature flag. The list is empty
    if the broker can keep them."""
    properties = connection.server_properties
    try:
        check_server(properties)
    except BrokerUnsuitable as exc:
        return [error(exc.what, found=exc.found, required=exc.required, remedy=_SUPPORTED)]
    if _version(properties) < FLAGS_ALWAYS_ON and not await _streams_enabled(connection):
        return [compare.disabled_flag("stream_queue", "disabled")]
    return []


async def _streams_enabled(connection: Connection) -> bool:
    # The broker refuses an exclusive stream in any case, so nothing is declared. If the feature flag is on, it refuses
    # a bad argument and closes the channel. If the flag is off, it has an internal error and closes the connection, so
    # the probe needs its own connection.
    stream = commands.Queue.Declare(
        queue=f"probe-{uuid4().hex}", durable=True, exclusive=True, arguments={"x-queue-type": "stream"}
    )
    async with losses_raised():
        probe = await connect(connection.url, tls=connection.tls)
        async with probe.raw, plain_channel(probe) as channel:
            try:
                await channel.rpc(stream)
            except ConnectionClosed:
                return False
            except ChannelClosed:
                return True
    return True


async def _missing(connection: Connection, plan: Plan) -> list[Difference]:
    items: tuple[Exchange | Queue, ...] = (*plan.exchanges, *plan.queues)
    return [
        error(f"{type(item).__name__.lower()} {item.name}", found="missing", required="declared", remedy=_DECLARE)
        for item, existing in (await look_at_all(connection, items)).items()
        if existing is None
    ]


async def _barring(connection: Connection, plan: Plan) -> list[Difference]:
    return [
        error(f"queue {queue.name} of an earlier version", found="declared", required="absent", remedy=_MOVE)
        for queue, existing in (await look_at_all(connection, plan.barring)).items()
        if existing
    ]


async def managed(
    management_url: str, vhost: str, plan: Plan, *, often: bool = False, tls: SSLContext | None = None
) -> dict[str, list[Difference]]:
    """Compares the plan with the answers of the management API. Returns the findings by question. A question is a path
    of the API with VHOST in place of the virtual host.

    `often`: for a check that runs often, asks only for bindings, policies and the slots with the most expired messages.
    These answers are small, and nothing else can change on existing objects.
    """
    questions: dict[str, Callable[[Any], list[Difference]]] = {
        "bindings/VHOST": lambda rows: compare.bindings(plan, rows),
        "policies/VHOST": lambda rows: compare.policies(plan, rows, kind="policy"),
        "operator-policies/VHOST": lambda rows: compare.policies(plan, rows, kind="operator policy"),
        f"queues/VHOST?{MOST_EXPIRED}": lambda page: compare.expired(plan, page["items"]),
    }
    if not often:
        questions |= {
            "feature-flags": compare.flags,
            "exchanges/VHOST": lambda rows: compare.exchanges(plan, rows),
            "queues/VHOST": lambda rows: compare.queues(plan, rows),
        }
    findings = {}
    async with management(management_url, tls) as api:
        for question, judge in questions.items():
            path = question.replace("VHOST", quoted(vhost))
            try:
                answer = await api.get(path)
            except httpx2.HTTPError as exc:
                remedy = "Check BRIDGE_MANAGEMENT_URL, and that its user has the tag `monitoring` or `policymaker`"
                findings[question] = [
                    unread(
                        f"answer of the management API at {api.where} to /api/{path}",
                        found=f"missing ({exc})",
                        remedy=remedy,
                    )
                ]
            else:
                findings[question] = judge(answer)
    return findings


def _compared(question: str, plan: Plan) -> str:
    """Describes the part of the broker that the answer to `question` shows, for the report."""
    return {
        "bindings/VHOST": f"{len(plan.bindings)} bindings",
        f"queues/VHOST?{MOST_EXPIRED}": "expired messages of slots",
        "policies/VHOST": "policies",
        "operator-policies/VHOST": "operator policies",
        "feature-flags": "all feature flags",
        "exchanges/VHOST": "properties of exchanges",
        "queues/VHOST": "arguments of queues",
    }[question]


def vhost_of(connection: Connection) -> str:
    """Returns the virtual host of an open connection."""
    return unquote(URL(connection.url).raw_path[1:]) or "/"


def _version(properties: Mapping[str, Any]) -> tuple[int, ...]:
    numbers = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", _text(properties.get("version", "")))
    return tuple(int(number or 0) for number in numbers.groups()) if numbers else (0, 0, 0)


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes | bytearray) else str(value)
