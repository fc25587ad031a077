"""Tests that no message of an AMQP 1.0 client stops a reader. RabbitMQ 4 can't convert some of them to AMQP 0.9.1, and
closes the connection that was to get one.

They run on RabbitMQ 4.3 unless the run has a version from 4.0 on.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aio_pika
import httpx2
import pytest
import pytest_asyncio
from aio_pika.abc import HeadersType

from bridge.local.errors import LocalError
from bridge.local.rabbitmq import RabbitNode
from tests.amqp10 import CONVERTED, DECIMALS, NULL_VALUE, UNCONVERTED, UUID_VALUE, message, sending, value_body
from tests.fault.api import Api
from tests.fault.stage import Stage
from tests.forked_bridge import ForkedBridge
from tests.integration.amqp import Amqp, header
from tests.matrix.servers import FEW_TICKS, Servers
from tests.pika import pika
from tests.waiting import pause
from topology import declare, plan
from topology.names import Names

GOOD = [f"good-{number}" for number in range(20)]
_ID = re.compile("has the message-id '([^']*)'")


@pytest.fixture(scope="module")
def node(local_dir: Path, servers: Servers) -> Iterator[RabbitNode]:
    if not servers.versions()[0].startswith("4."):
        servers = Servers(rabbitmq="4.3", redis=servers.redis)
        try:
            servers.versions()
        except LocalError as error:
            pytest.skip(str(error))
    node = servers.rabbit_node(local_dir / "unreadable-rabbitmq", advanced=FEW_TICKS)
    yield node
    node.kill()


@pytest.fixture(scope="module")
def stage(local_dir: Path, servers: Servers, node: RabbitNode) -> Iterator[Stage]:
    with Stage(local_dir / "unreadable", servers, node) as stage:
        yield stage


@pytest.fixture(scope="module")
def bridge(stage: Stage) -> ForkedBridge:
    bridge = stage.bridge(verify_every="1s")
    bridge.start()
    return bridge


@pytest_asyncio.fixture
async def amqp(stage: Stage, bridge: ForkedBridge) -> AsyncIterator[Amqp]:
    async with await aio_pika.connect(stage.rabbit.amqp_url) as connection:
        yield Amqp(connection)


@pytest.fixture
def api(http: httpx2.AsyncClient, bridge: ForkedBridge) -> Api:
    return Api(http, bridge.url)


@pytest.fixture
def decimals(amqp: Amqp) -> bool:
    """Whether this RabbitMQ converts decimals."""
    transport = amqp.connection.transport
    assert transport is not None
    version = str(transport.connection.server_properties["version"])
    return tuple(map(int, version.split(".")[:2])) >= (4, 3)


def unreadable(*, decimals: bool) -> dict[str, bytes]:
    """A message for each value that RabbitMQ does not convert, in each place, by message id."""
    unconverted = UNCONVERTED if decimals else UNCONVERTED | DECIMALS
    properties = {f"property {kind}": {"p": value} for kind, value in unconverted.items()}
    # Nobody can read a char or a decimal in an annotation of RabbitMQ 4.0, not even over AMQP 1.0.
    annotations = {f"annotation {kind}": {"x-p": value} for kind, value in UNCONVERTED.items() if kind != "char"}
    return (
        {name: message(name, properties=values) for name, values in properties.items()}
        | {name: message(name, annotations=values) for name, values in annotations.items()}
        | {
            "content type": message("content type", content_type="a" * 300),
            "priority": message("priority", annotations={"x-basic-priority": b"\xa1\x04high"}),
        }
    )


def readable(*, decimals: bool) -> dict[str, bytes]:
    """A message for each value that RabbitMQ converts, in each place, and each value as a body."""
    bodies = CONVERTED | UNCONVERTED | DECIMALS
    converted = CONVERTED | DECIMALS if decimals else CONVERTED
    return (
        {f"of {kind}": message(f"of {kind}", properties={"p": value}) for kind, value in converted.items()}
        | {f"with {kind}": message(f"with {kind}", annotations={"x-p": value}) for kind, value in converted.items()}
        | {f"body {kind}": message(f"body {kind}", body=value_body(value)) for kind, value in bodies.items()}
    )


async def refused(amqp: Amqp, count: int) -> dict[str, str]:
    """Takes messages out of `delay.refused`. Returns their reasons by message id."""
    reasons: dict[str, str] = {}
    async with amqp.consume("delay.refused", prefetch=count) as arrivals:
        while len(reasons) < count:
            message = await arrivals.get()
            await message.ack()
            reason = str(header(message, "x-delay-reason"))
            found = _ID.search(reason)
            assert found is not None, reason
            reasons[found[1]] = reason
    return reasons


async def finding_of(api: Api, message_id: str) -> str:
    """Waits until a finding names the message, and returns its text."""
    return await finding_with(api, f"the message-id '{message_id}'")


async def finding_with(api: Api, part: str) -> str:
    """Waits for a finding with this text, and returns all its text."""
    while True:
        for finding in (await api.call("GET", "/health/ready")).json()["findings"]:
            if part in finding["says"]:
                return str(finding["says"])
        await pause()


async def arrived(amqp: Amqp, queue: str, ids: set[str]) -> set[str]:
    """Waits until these ids have come out of the queue. Returns what else has come."""
    came: set[str] = set()
    async with amqp.consume(queue, prefetch=500) as arrivals:
        while not ids <= came:
            message = await arrivals.get()
            await message.ack()
            came.add(str(message.headers.get("x-delay-message-id", message.message_id)))
    return came - ids


@pytest.mark.parametrize(
    "door",
    [
        ("delay.in", "header", "ready.header"),
        ("delay.in.E", "a.key", "of-e"),
        ("delay", "entry", "ready.entry"),
        ("delay", "0.0.0.0.0.0.1.digits", "ready.digits"),
    ],
)
async def test_what_an_amqp_1_0_client_sends_stops_no_reader(
    amqp: Amqp, stage: Stage, door: tuple[str, str, str], decimals: bool
) -> None:
    exchange, key, queue = door
    await declare.apply(pika(amqp.connection), plan.ingress_of(Names(), "E"))
    async with amqp.connection.channel() as channel:
        entry = await channel.declare_exchange("E", "topic")
        await (await channel.declare_queue("of-e")).bind(entry, "#")
    bad, fine = unreadable(decimals=decimals), readable(decimals=decimals)
    delayed: HeadersType = {} if key[0].isdigit() else {"x-delay": 1}
    for good in GOOD:
        await amqp.publish(exchange, key, headers=delayed, message_id=good)
    async with sending(stage.rabbit.amqp_url, f"/exchanges/{exchange}/{key}") as sender:
        await sender.send(*bad.values())
        if exchange != "delay" or not delayed:
            await sender.send(*fine.values())
    if exchange == "delay" and delayed:
        fine = {}  # without a delay in a header they are refused there

    reasons = await refused(amqp, len(bad))

    assert reasons.keys() == bad.keys()
    assert "its application property 'p' is of the type uuid" in reasons["property uuid"]
    while await amqp.count(queue) is None:
        await pause()
    assert await arrived(amqp, queue, {*GOOD, *fine}) == set()


@pytest.mark.parametrize(
    "order",
    [["null", "uuid"], ["uuid", "null"], [*["null"] * 12, "uuid", "null", "uuid"]],
    ids=["null first", "uuid first", "many"],
)
@pytest.mark.parametrize(("exchange", "before"), [("delay.in", ""), ("delay", "0.0.0.0.0.0.1.")])
async def test_what_amqp_1_0_can_not_have_hides_nothing_that_stops_a_reader(
    amqp: Amqp, stage: Stage, exchange: str, before: str, order: list[str]
) -> None:
    topic = f"{exchange}-{order[0]}-{len(order)}"
    queue = f"ready.{topic}"
    values = {"null": NULL_VALUE, "uuid": UUID_VALUE}
    sent = [(f"{kind}-{place}", {"x-p": values[kind]}) for place, kind in enumerate(order)]
    first, *others = GOOD
    async with sending(stage.rabbit.amqp_url, f"/exchanges/{exchange}/{before}{topic}") as sender:
        await sender.send(
            message(first),
            *(message(name, annotations=annotations) for name, annotations in sent),
            *map(message, others),
        )

    assert len(await refused(amqp, order.count("uuid"))) == order.count("uuid")
    while await amqp.count(queue) is None:
        await pause()
    nulls = {name for name, _ in sent if name.startswith("null")}
    assert await arrived(amqp, queue, {*GOOD, *nulls}) == set()


@pytest.mark.parametrize(("exchange", "before"), [("delay.in", ""), ("delay", "0.0.0.0.0.0.1.")])
async def test_a_message_that_rabbitmq_never_takes_from_a_bridge_stops_no_other(
    amqp: Amqp, stage: Stage, exchange: str, before: str
) -> None:
    """RabbitMQ takes this `reply_to` only on a channel that has a consumer for replies, and closes any other channel
    with 406. It asks no AMQP 1.0 client for such a consumer."""
    first, *others = GOOD
    topic = f"replied-{exchange}"
    async with sending(stage.rabbit.amqp_url, f"/exchanges/{exchange}/{before}{topic}") as sender:
        await sender.send(message(first), message("never", reply_to="amq.rabbitmq.reply-to"), *map(message, others))

    aside = await amqp.put_aside("RabbitMQ refuses the message")
    assert (aside.message_id, aside.body) == ("never", b"x")
    assert await arrived(amqp, f"ready.{topic}", {*GOOD}) == set()


async def test_health_names_the_queue_of_a_message_that_no_protocol_can_have(
    amqp: Amqp, api: Api, stage: Stage
) -> None:
    neither = message("neither", annotations={"x-null": NULL_VALUE, "x-uuid": UUID_VALUE})
    async with sending(stage.rabbit.amqp_url, "/exchanges/delay.in/neither") as sender:
        await sender.send(neither)

    await finding_with(api, "found no message in the queue delay.in")

    async with amqp.connection.channel() as channel:
        queue = await channel.get_queue("delay.in", ensure=False)
        while not (await queue.purge()).message_count:
            await pause()
    await amqp.publish("delay.in", "neither", headers={"x-delay": 1}, message_id="next")
    while await amqp.count("ready.neither") is None:
        await pause()
    assert await arrived(amqp, "ready.neither", {"next"}) == set()


async def test_an_unreadable_ack_stops_no_other(amqp: Amqp, api: Api, stage: Stage, decimals: bool) -> None:
    for good in GOOD:
        await api.sent("acked", good)
    bad = unreadable(decimals=decimals)
    async with sending(stage.rabbit.amqp_url, "/exchanges/delay.done/acked") as sender:
        await sender.send(*bad.values(), *(message(good) for good in GOOD))

    assert (await refused(amqp, len(bad))).keys() == bad.keys()
    for good in GOOD:
        while (await api.look("acked", good))["state"] != "acked":
            await pause()


async def test_an_unreadable_message_in_a_ready_queue_stops_no_pull(amqp: Amqp, api: Api, stage: Stage) -> None:
    for good in GOOD:
        await api.sent("pulled", good)
    async with sending(stage.rabbit.amqp_url, "/queues/ready.pulled") as sender:
        await sender.send(message("bad", properties={"p": UUID_VALUE}))
    await api.sent("pulled", "behind")

    came: set[str] = set()
    while not {*GOOD, "behind"} <= came:
        came |= {pulled["id"] for pulled in await api.pull("pulled", most=50, wait_ms=100)}

    assert "ready.pulled" in (await refused(amqp, 1))["bad"]


async def test_health_names_the_message_and_its_queue(amqp: Amqp, api: Api, stage: Stage) -> None:
    async with sending(stage.rabbit.amqp_url, "/exchanges/delay.in/named") as sender:
        await sender.send(message("order-7", properties={"p": UUID_VALUE}))

    says = await finding_of(api, "order-7")

    assert "delay.refused is not empty" in says
    assert "was in delay.in" in says
    await refused(amqp, 1)


async def test_an_unreadable_message_in_the_queue_of_refused_ones_stops_no_inspection(
    amqp: Amqp, api: Api, stage: Stage
) -> None:
    async with sending(stage.rabbit.amqp_url, "/queues/delay.refused") as sender:
        await sender.send(message("hidden", properties={"p": UUID_VALUE}))

    await finding_of(api, "hidden")
    await refused(amqp, 1)
