"""Tests the benchmark's AMQP consumer, which reads only what it needs, with frames that pamqp writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from pamqp import body, commands, frame, header

from benchmarks.deliveries import Deliveries, id_and_due
from benchmarks.errors import BenchError

DUE_MS = 1_800_000_000_123


def properties(**more: object) -> bytes:
    """The flags and properties of a header frame."""
    basic = commands.Basic.Properties(**more)  # type: ignore[arg-type]
    return frame.marshal(header.ContentHeader(0, 5, basic), 1)[19:-1]


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"content_type": "application/json", "content_encoding": "utf-8"},
        {"delivery_mode": 2, "priority": 3, "correlation_id": "c", "reply_to": "r", "expiration": "60000"},
        {"app_id": "x-delay-due", "message_type": "t", "user_id": "guest"},
    ],
)
def test_id_and_due_moment_are_read_beside_any_other_property(more: dict[str, object]) -> None:
    headers = {"x-delay-epoch": 3, "x-delay-due": DUE_MS, "x-delay-topic": "orders"}
    assert id_and_due(properties(headers=headers, message_id="m-1", **more)) == ("m-1", DUE_MS)


@pytest.mark.parametrize(
    "more", [{"message_id": "m-1"}, {"headers": {"x-delay-due": DUE_MS}}, {"headers": {}, "message_id": "x-delay-due"}]
)
def test_a_message_without_an_id_or_a_due_moment_is_refused(more: dict[str, object]) -> None:
    with pytest.raises(BenchError):
        id_and_due(properties(**more))


def delivery(tag: int, message_id: str, content: bytes) -> bytes:
    basic = commands.Basic.Properties(headers={"x-delay-due": DUE_MS}, message_id=message_id)
    parts = [
        frame.marshal(commands.Basic.Deliver("bench", tag, False, "delay.ready", "orders"), 1),
        frame.marshal(header.ContentHeader(0, len(content), basic), 1),
    ]
    return b"".join([*parts, *([frame.marshal(body.ContentBody(content), 1)] if content else [])])


@asynccontextmanager
async def broker(deliveries: bytes, step: int) -> AsyncIterator[tuple[str, asyncio.Queue[bytes]]]:
    """Serves the handshake, then writes the deliveries, `step` bytes at once. Yields its URL, and what the client sends
    later."""
    sent: asyncio.Queue[bytes] = asyncio.Queue()
    start = commands.Connection.Start(0, 9, {}, "PLAIN", "en_US")
    tune, opened = commands.Connection.Tune(0, 131_072, 0), commands.Connection.OpenOk()
    by_read = [
        start,
        tune,
        opened,
        commands.Channel.OpenOk(),
        commands.Basic.QosOk(),
        commands.Basic.ConsumeOk("bench"),
    ]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in by_read:
            await reader.read(4_096)
            writer.write(frame.marshal(answer, 0))
        for at in range(0, len(deliveries), step):
            writer.write(deliveries[at : at + step])
            await writer.drain()
            await asyncio.sleep(0)
        while data := await reader.read(4_096):
            sent.put_nowait(data)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"amqp://guest:guest@127.0.0.1:{server.sockets[0].getsockname()[1]}/", sent


@pytest.mark.parametrize("step", [1, 7, 100_000])
async def test_deliveries_that_arrive_in_pieces_are_read(step: int) -> None:
    written = [delivery(1, "a", b"x" * 300), delivery(2, "b", b""), delivery(3, "c", b"y")]
    came: list[tuple[str, int]] = []
    all_here = asyncio.Event()

    def received(message_id: str, due_ms: int) -> None:
        came.append((message_id, due_ms))
        if len(came) == len(written):
            all_here.set()

    async with asyncio.timeout(30), broker(b"".join(written), step) as (url, _):
        deliveries = Deliveries(received, prefetch=10)
        await deliveries.consume(url, "ready.orders")
        await all_here.wait()
        deliveries.close()
    assert came == [("a", DUE_MS), ("b", DUE_MS), ("c", DUE_MS)]


async def test_deliveries_read_together_are_acknowledged_with_one_multiple_ack() -> None:
    written = b"".join(delivery(tag, str(tag), b"z") for tag in (1, 2, 3))
    acked = asyncio.Event()
    async with asyncio.timeout(30), broker(written, len(written)) as (url, acks):
        deliveries = Deliveries(lambda message_id, due_ms: acked.set() if message_id == "3" else None, prefetch=10)
        await deliveries.consume(url, "ready.orders")
        await acked.wait()
        sent = await acks.get()
        deliveries.close()
    _, channel, ack = frame.unmarshal(sent[-21:])
    assert channel == 1
    assert isinstance(ack, commands.Basic.Ack)
    assert (ack.delivery_tag, ack.multiple) == (3, True)
