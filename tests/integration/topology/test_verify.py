"""Tests verification of a broker: missing and changed objects, and policies that break promises."""

from pathlib import Path

import aio_pika
import pytest

from bridge.local.rabbitmq import RabbitNode
from tests.command import command
from tests.integration.topology.conftest import Broker
from tests.matrix.servers import Servers
from tests.pika import pika
from topology import plan
from topology.declare import apply, remove
from topology.definitions import export
from topology.former import FormerNames
from topology.names import Names
from topology.plan import Plan
from topology.verify import verify
from topology.wheel import HANDS

NAMES = Names()
SMALL = plan.core(NAMES) + plan.slot(NAMES, "seconds", 5) + plan.topic(NAMES, "orders")


async def test_missing_objects_are_reported_over_amqp_alone(broker: Broker) -> None:
    await apply(pika(broker.connection), SMALL)
    # A dead queue is declared with its topic's first letter, so it may be missing.
    gone = Plan(exchanges=SMALL.exchanges[-1:], queues=SMALL.queues[-1:], later=SMALL.later)
    await remove(pika(broker.connection), gone)

    before = (await broker.call("GET", "queues/VHOST?columns=name")).json()
    report = await verify(pika(broker.connection), SMALL)

    assert (await broker.call("GET", "queues/VHOST?columns=name")).json() == before
    assert [(f.severity, f.name, f.found) for f in report.findings] == [
        ("error", f"exchange {SMALL.exchanges[-1].name}", "missing"),
        ("error", "queue ready.orders", "missing"),
    ]
    assert not report.ok
    assert "queue ready.orders is missing; it must be declared" in str(report)


async def test_queue_with_other_arguments_is_reported(broker: Broker) -> None:
    await apply(pika(broker.connection), plan.core(NAMES))
    async with broker.connection.channel() as channel:
        await channel.declare_queue(
            "delay.000d-00h-00m-05s",
            durable=True,
            arguments={"x-queue-type": "quorum", "x-message-ttl": 6000, "x-expires": 10_000},
        )

    slot = plan.slot(NAMES, "seconds", 5)
    report = await verify(pika(broker.connection), slot, management_url=broker.management_url)

    assert {(f.name, f.found, f.required) for f in report.findings} == {
        ("delay.000d-00h-00m-05s: x-message-ttl", "6000", "5000"),
        ("delay.000d-00h-00m-05s: x-expires", "10000", "absent"),
        ("delay.000d-00h-00m-05s: x-dead-letter-exchange", "absent", "delay.tenths"),
        ("delay.000d-00h-00m-05s: x-dead-letter-strategy", "absent", "at-least-once"),
        ("delay.000d-00h-00m-05s: x-overflow", "absent", "reject-publish"),
        ("binding delay.seconds --*.*.*.*.*.5.#--> delay.000d-00h-00m-05s", "missing", "bound"),
    }


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
async def test_policy_that_would_lose_messages_is_reported(broker: Broker, kind: str) -> None:
    await apply(pika(broker.connection), SMALL)
    policy = {
        "pattern": r"^delay\.",
        "definition": {"message-ttl": 1000, "max-length": 10},
        "apply-to": "queues",
        "priority": 1,
    }
    await broker.call("PUT", f"{kind}/VHOST/limits", policy)

    report = await verify(pika(broker.connection), SMALL, management_url=broker.management_url)

    word = "policy" if kind == "policies" else "operator policy"
    assert not report.ok
    assert {f.name for f in report.findings} == {
        f"delay.{queue}: {word} limits: {key}"
        for queue in ("000d-00h-00m-05s", "checkpoint", "acks", "refused", "unroutable")
        for key in ("message-ttl", "max-length")
    } | {f"delay.in: {word} limits: max-length"}


async def test_overflow_of_a_policy_wins_over_that_of_the_queue(broker: Broker) -> None:
    """The bridge relies on this where it tells how a policy harms a queue."""
    await apply(pika(broker.connection), SMALL)
    policy = {"pattern": "^delay.000d", "definition": {"overflow": "drop-head", "max-length": 1}, "apply-to": "queues"}
    await broker.call("PUT", "policies/VHOST/dropping", policy)

    report = await verify(pika(broker.connection), SMALL, management_url=broker.management_url)
    async with broker.connection.channel() as channel:
        slot = await channel.get_queue("delay.000d-00h-00m-05s", ensure=False)
        for number in range(3):
            await channel.default_exchange.publish(aio_pika.Message(b"%d" % number), slot.name)
        kept = await slot.get()

    assert kept.body == b"2"
    assert [(f.severity, f.name.rpartition(" ")[2]) for f in report.findings] == [
        ("error", "overflow"),
        ("error", "max-length"),
    ]


async def test_binding_that_leads_messages_past_the_checkpoint_is_reported(broker: Broker) -> None:
    await apply(pika(broker.connection), SMALL)
    async with broker.connection.channel() as channel:
        tap = await channel.declare_queue("tap", durable=True)
        await tap.bind("delay.due", "#")

    report = await verify(pika(broker.connection), SMALL, management_url=broker.management_url)

    assert [(f.severity, f.name) for f in report.findings] == [("warning", "binding delay.due --#--> tap")]
    assert report.ok


async def test_slots_of_an_earlier_version_are_reported(broker: Broker) -> None:
    await apply(pika(broker.connection), SMALL)
    former = FormerNames.of(NAMES)
    await apply(pika(broker.connection), plan.slot(former, "seconds", 5) + plan.slot(former, "tenths", 9))

    report = await verify(pika(broker.connection), SMALL, management_url=broker.management_url)

    assert [(f.severity, f.name) for f in report.findings] == [
        ("error", "queue delay.900ms of an earlier version"),
        ("warning", "delay.5s: binding with the key of another queue"),
    ]
    assert "delaybridge topology drain" in str(report)


async def test_report_says_that_the_management_api_did_not_answer(broker: Broker) -> None:
    await apply(pika(broker.connection), SMALL)

    report = await verify(pika(broker.connection), SMALL, management_url="http://guest:guest@127.0.0.1:1")

    assert report.ok
    assert {f.severity for f in report.findings} == {"warning"}
    assert "not checked: policies, as the management API did not answer" in str(report)
    assert "policies" not in report.checked


async def test_imported_definitions_file_verifies_without_findings(broker: Broker) -> None:
    slots = [plan.slot(NAMES, hand.name, hand.values[-1]) for hand in HANDS]
    topics = plan.topic(NAMES, "orders") + plan.topic(NAMES, "mails", direct=True)
    wanted = plan.merged((plan.core(NAMES), *slots, topics))

    await broker.call("POST", "definitions", export(wanted, broker.vhost))

    report = await verify(pika(broker.connection), wanted, management_url=broker.management_url)
    assert report.findings == ()


class _WithoutStreams(RabbitNode):
    """A 3.10 node as after an upgrade from 3.8, without the newer feature flags."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"RABBITMQ_FEATURE_FLAGS": "quorum_queue"}


async def test_missing_feature_flag_is_reported_with_and_without_management_api(
    local_dir: Path, servers: Servers
) -> None:
    if not servers.versions()[0].startswith("3.10."):
        pytest.skip("only 3.10 can run without the flag: new nodes of 3.11 enable it, and 3.12 requires it")
    installation = servers.rabbitmq_installation
    node = _WithoutStreams(local_dir / "without-streams", name="withoutstreams", installation=installation)
    node.start()
    try:
        async with await aio_pika.connect(node.amqp_url) as connection:
            await apply(pika(connection), SMALL)
            over_amqp = await verify(pika(connection), SMALL)
            managed = await verify(pika(connection), SMALL, management_url=node.management_url)
        doctor = await command("doctor", settings={"BRIDGE_AMQP_URL": node.amqp_url})
    finally:
        node.kill()
    expected = [("error", "feature flag stream_queue", "disabled", "enabled")]
    assert [(f.severity, f.name, f.found, f.required) for f in over_amqp.findings] == expected
    assert [(f.severity, f.name, f.found, f.required) for f in managed.findings] == expected
    assert "feature flag stream_queue is disabled; it must be enabled" in doctor.stdout
