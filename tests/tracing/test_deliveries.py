"""Tests that each delivery is a trace with one link to its sender's, and that consumers get the sender's context."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from secrets import token_hex
from time import time, time_ns

import pytest
import pytest_asyncio
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.tracing.context import OF_RELEASE
from tests.callbacks.receiver import answer, receiving
from tests.callbacks.subscribing import subscribe
from tests.forked_bridge import ForkedBridge
from tests.integration.amqp import header
from tests.integration.own import Own, own_bridge
from tests.integration.targets import opened
from tests.integration.topic import Json, Topic
from tests.tracing.collector import Collector, Seen, collecting
from tests.waiting import pause

STATE = "vendor=a1,other=b2"
SOON = {"OTEL_BSP_SCHEDULE_DELAY": "100"}


@pytest_asyncio.fixture(scope="module")
async def collector() -> AsyncIterator[Collector]:
    async with collecting() as collector:
        yield collector


@pytest_asyncio.fixture(scope="module")
async def module_bridge(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, collector: Collector
) -> AsyncIterator[Own]:
    """Two worker processes: one releases, the other answers pulls and calls receivers."""
    settings = {
        "BRIDGE_WORKERS": "2",
        "BRIDGE_PUSH_ALLOW": "http://127.0.0.1",
        "BRIDGE_LMSTFY_SKIP_VERIFICATION": "true",
        "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url,
        "OTEL_RESOURCE_ATTRIBUTES": "service.instance.id=host-7,deployment.environment.name=test",
        **SOON,
    }
    async with own_bridge(rabbit, redis_node.url, local_dir / "tracing", **settings) as own:
        yield own


@pytest.fixture
def own(module_bridge: Own) -> Own:
    """Tests that leave no message in the topic share it: a new queue confirms nothing in its first second."""
    return module_bridge


def traceparent(flags: str = "01") -> str:
    return f"00-{token_hex(16)}-{token_hex(8)}-{flags}"


async def send(own: Own, *messages: Json, **headers: str) -> None:
    """Sends messages in one request, which has these headers."""
    path = f"/v1/topics/{own.topic.name}/messages/batch"
    sent = await own.topic.client.post(path, json={"messages": messages}, headers=headers)
    assert [one["status"] for one in sent.json()["results"]] == [201] * len(messages)


def linked(spans: Sequence[Seen]) -> list[str]:
    """The ids of the spans to which any of these has a link, as they are in a `traceparent`."""
    return [f"{link.trace_id.hex()}-{link.span_id.hex()}" for one in spans for link in one.span.links]


def is_one_delivery(spans: Sequence[Seen], sender: str) -> bool:
    """Whether the spans are one new trace, whose root is the first and alone has a link, to the sender's span."""
    root = spans[0].span
    return (
        len({one.span.trace_id for one in spans}) == 1
        and root.trace_id.hex() not in sender
        and not root.parent_span_id
        and all(one.span.parent_span_id for one in spans[1:])
        and linked(spans[:1]) == linked(spans) == [sender[3:-3]]
    )


async def test_pull_has_one_link_and_each_further_delivery_its_own(own: Own, collector: Collector) -> None:
    sender = traceparent()
    path, body = f"/v1/topics/{own.topic.name}/messages", {"id": "m-1", "body": 1, "delay": "300ms"}
    sent = await own.topic.client.post(path, json=body, headers={"traceparent": sender, "tracestate": STATE})
    assert sent.json()["headers"] == {"traceparent": sender, "tracestate": STATE}

    first = await own.topic.pull_one()
    assert first["headers"] == {"traceparent": sender, "tracestate": STATE}
    spans = await collector.spans_of("m-1", "release", "pull")
    assert is_one_delivery(spans, sender)
    release, pull = spans
    assert (release.span.name, release.span.kind) == (f"release delay.ready:{own.topic.name}", Span.SPAN_KIND_PRODUCER)
    assert (pull.span.name, pull.span.kind) == (f"pull {own.topic.ready_queue}", Span.SPAN_KIND_CLIENT)
    assert release.attributes == {
        "messaging.system": "rabbitmq",
        "messaging.operation.type": "send",
        "messaging.operation.name": "release",
        "messaging.destination.name": f"delay.ready:{own.topic.name}",
        "messaging.rabbitmq.destination.routing_key": own.topic.name,
        "messaging.message.id": "m-1",
        "delaybridge.topic": own.topic.name,
        "delaybridge.attempt": 1,
        "delaybridge.due_ms": release.attributes["delaybridge.due_ms"],
    }
    assert pull.attributes["messaging.operation.type"] == "receive"
    assert {one.resource["service.instance.id"] for one in spans} == {"host-7/api-1", "host-7/checkpoint-1"}
    assert {(one.resource["service.name"], one.resource["deployment.environment.name"]) for one in spans} == {
        ("delaybridge", "test")
    }

    await own.topic.nack(first, delay="200ms")
    second = await own.topic.pull_one()
    assert second["headers"] == first["headers"]
    await own.topic.ack(second)
    again = await collector.spans_of("m-1", "release", "pull", "release", "pull")
    assert is_one_delivery(again[2:], sender)
    assert again[2].attributes["delaybridge.attempt"] == 2
    assert again[2].span.trace_id != release.span.trace_id


async def test_release_into_a_new_queue_ends_with_its_confirm(own: Own, collector: Collector) -> None:
    own = own.with_fresh_topic()
    await own.topic.send(id="young-1", delay="200ms", headers={"traceparent": traceparent()})
    await own.topic.pull_one()
    counted = re.compile(rf'^delaybridge_released_total{{[^}}]*"{own.topic.name}"[^}}]*}} 1\.0$', re.MULTILINE)
    while not counted.search((await own.topic.client.get("/metrics")).text):
        await pause()
    counted_ns = time_ns()
    release, pull = await collector.spans_of("young-1", "release", "pull")
    # The release counts once the new queue has settled, over a second later.
    assert release.span.end_time_unix_nano < (pull.span.end_time_unix_nano + counted_ns) / 2


async def test_release_to_a_target_has_a_span(own: Own, collector: Collector) -> None:
    headers = {"traceparent": traceparent(), "x-delay-routing-key": "eu.new"}
    async with opened(own.amqp) as shop:
        headers["x-delay-exchange"] = shop.name
        await own.amqp.publish("delay", f"0.0.0.0.0.0.3.{own.topic.name}", headers={**headers}, message_id="t-1")
        await own.amqp.take(shop.queue.name)
    (release,) = await collector.spans_of("t-1", "release")
    assert release.span.name.startswith(f"release {shop.name}:")


async def test_amqp_delivery_has_one_link_and_the_senders_header(own: Own, collector: Collector) -> None:
    given = {"traceparent": traceparent(), "tracestate": STATE, "tenant": "t-7"}
    await own.amqp.publish("delay", f"0.0.0.0.0.0.3.{own.topic.name}", headers={**given}, message_id="a-1")
    message = await own.amqp.take(own.topic.ready_queue)
    assert {name: header(message, name) for name in given} == given
    spans = await collector.spans_of("a-1", "release")
    assert is_one_delivery(spans, given["traceparent"])
    released = spans[0].span
    assert header(message, OF_RELEASE) == f"00-{released.trace_id.hex()}-{released.span_id.hex()}-01"


async def test_callback_has_one_link_and_the_senders_headers(own: Own, collector: Collector) -> None:
    own, sender = own.with_fresh_topic(), traceparent()
    async with receiving() as receiver:
        receiver.then.append(answer(500))
        await subscribe(own.topic, receiver)
        await own.topic.send(id="c-1", delay="200ms", headers={"traceparent": sender, "tracestate": STATE})
        for call in await receiver.some(2):
            assert (call.headers["traceparent"], call.headers["tracestate"]) == (sender, STATE)
        await own.topic.until_state("c-1", "acked")
    spans = await collector.spans_of("c-1", *("release", "pull", "callback") * 2)
    for delivery, status in ((spans[:3], 500), (spans[3:], 200)):
        assert is_one_delivery(delivery, sender)
        callback = delivery[2]
        assert (callback.span.name, callback.span.kind) == (
            f"callback {own.topic.ready_queue}",
            Span.SPAN_KIND_CONSUMER,
        )
        assert callback.attributes["http.response.status_code"] == status
        assert (callback.attributes.get("error.type"), callback.span.status.code) == (
            ("500", Status.STATUS_CODE_ERROR) if status == 500 else (None, Status.STATUS_CODE_UNSET)
        )


async def test_each_message_of_a_bundle_has_its_own_senders_link(own: Own, collector: Collector) -> None:
    request = traceparent()
    senders = {f"b-{at}": traceparent() for at in range(20)}
    messages: list[Json] = [
        {"id": each, "body": 1, "delay": "900ms", "headers": {"traceparent": sender}}
        for each, sender in senders.items()
    ]
    await send(own, *messages, {"id": "b-20", "body": 1, "delay": "900ms"}, traceparent=request, tracestate=STATE)
    found: dict[str, Json] = {}
    while len(found) <= len(senders):
        for message in await own.topic.pull(max=100):
            found[message["id"]] = message
            await own.topic.ack(message)
    assert found["b-20"]["headers"] == {"traceparent": request, "tracestate": STATE}
    for each, sender in senders.items():
        assert found[each]["headers"] == {"traceparent": sender}
        assert is_one_delivery(await collector.spans_of(each, "release", "pull"), sender)
    assert is_one_delivery(await collector.spans_of("b-20", "release", "pull"), request)


async def test_message_without_a_recorded_trace_has_no_span(own: Own, collector: Collector) -> None:
    given = {"broken": f"{traceparent()}-more", "unsampled": traceparent("00"), "marked": traceparent()}
    for each, value in given.items():
        await send(own, {"id": each, "body": 1, "delay": "200ms"}, traceparent=value)
    await send(own, {"id": "none", "body": 1, "delay": "200ms"}, tracestate=STATE)
    found: dict[str, Json] = {}
    while len(found) < 4:
        for message in await own.topic.pull(max=10):
            found[message["id"]] = message["headers"]
            await own.topic.ack(message)
    assert found == {each: {"traceparent": value} for each, value in given.items()} | {"none": {}}
    assert is_one_delivery(await collector.spans_of("marked", "release", "pull"), given["marked"])
    # The collector gets the spans of a process in the order in which they ended, and these messages came before.
    for each in ("broken", "unsampled", "none"):
        assert await collector.spans_of(each) == []


async def test_pull_begins_the_trace_if_no_bridge_released_the_copy(own: Own, collector: Collector) -> None:
    own, sender = own.with_fresh_topic(), traceparent()
    await own.topic.put_policy(release="direct")
    await send(own, {"id": "d-1", "body": 1, "delay": "200ms"}, traceparent=sender)
    assert (await own.topic.pull_one())["headers"] == {"traceparent": sender}
    assert is_one_delivery(await collector.spans_of("d-1", "pull"), sender)


async def test_message_that_is_due_at_once_is_released_by_its_send(own: Own, collector: Collector) -> None:
    sender = traceparent()
    await send(own, {"id": "n-1", "body": 1}, traceparent=sender)
    await own.topic.ack(await own.topic.pull_one())
    assert is_one_delivery(await collector.spans_of("n-1", "release", "pull"), sender)


async def test_wires_give_messages_the_requests_context(own: Own) -> None:
    name, traced = own.with_fresh_topic().topic.name, {"traceparent": traceparent(), "tracestate": STATE}
    client = own.topic.client
    job = {"topic": name, "delay": 600, "ttr": 60, "body": "x"}
    task = {"topic": name, "timing_moment": int(time()) + 600, "content": "x"}
    sends = {
        "camellia": client.build_request(
            "POST", "/camellia/delayQueue/sendMsg", data={"topic": name, "msg": "x", "delayMillis": 600_000}
        ),
        "ouqiang": client.build_request("POST", "/push", json={"id": f"{name}-1", **job}),
        "youzan": client.build_request("POST", "/youzan", json={"command": "add", "id": f"{name}-2", **job}),
        "changsongl": client.build_request("POST", f"/topic/{name}/job", json={"id": "3", **job}),
        "tasks": client.build_request("POST", "/delay/task/add", json=task),
        "lmstfy": client.build_request("PUT", f"/api/{name}/q?delay=600", content=b"x"),
    }
    for wire, request in sends.items():
        request.headers.update(traced)
        assert (await client.send(request)).is_success, wire
    listed = await Topic(client, name).call("GET", "/messages?state=waiting")
    of_lmstfy = await Topic(client, f"{name}/q").call("GET", "/messages?state=waiting")
    found = [message["headers"] for page in (listed, of_lmstfy) for message in page["items"]]
    assert len(found) == len(sends)
    assert all(traced.items() <= headers.items() for headers in found)


async def test_process_sends_its_last_spans_before_it_ends(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, collector: Collector
) -> None:
    sender = traceparent()
    settings = {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_BSP_SCHEDULE_DELAY": "600000"}
    endpoint = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{collector.url}/v1/traces"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "flushed", **settings, **endpoint) as own:
        await send(own, {"id": "f-1", "body": 1, "delay": "200ms"}, traceparent=sender)
        await own.topic.ack(await own.topic.pull_one())
        await asyncio.to_thread(own.bridge.stop)
        spans = await collector.spans_of("f-1", "release", "pull")
    assert is_one_delivery(spans, sender)


def test_only_a_bridge_that_traces_loads_the_exporter(own: Own, bridge: ForkedBridge) -> None:
    encoder = "google/_upb/"
    assert all(encoder in Path(f"/proc/{pid}/maps").read_text() for pid in own.bridge.worker_pids)
    assert encoder not in Path(f"/proc/{bridge.pid}/maps").read_text()
