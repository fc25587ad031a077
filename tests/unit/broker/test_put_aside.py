"""Tests what is told of a queue that could not be searched for unreadable messages."""

from __future__ import annotations

from structlog.testing import capture_logs

from bridge.broker.copies.properties import Message
from bridge.broker.put_aside import PutAside

_NOWHERE = "amqp://127.0.0.1:1"


async def refuse_none(message: Message, reason: str) -> None:
    raise AssertionError(reason)


async def test_an_outage_of_a_queue_is_one_warning_and_is_told() -> None:
    aside = PutAside(refuse_none, None)
    with capture_logs() as logged:
        for queue in ("delay.in", "delay.acks", "delay.in", "delay.in", "delay.acks", "ready.once"):
            await aside.unreadable(_NOWHERE, queue, 10)

    assert [(entry["event"], entry["queue"]) for entry in logged] == [
        ("broker.not_put_aside", "delay.in"),
        ("broker.not_put_aside", "delay.acks"),
    ]
    assert list(aside.failing) == ["delay.in", "delay.acks"]
    assert "no AMQP 1.0 connection to RabbitMQ" in aside.failing["delay.in"]


async def test_queues_that_are_told_have_a_bound() -> None:
    aside = PutAside(refuse_none, None)
    with capture_logs():
        for number in range(100):
            for _ in range(2):
                await aside.unreadable(_NOWHERE, f"ready.{number}", 10)

    assert list(aside.failing) == [f"ready.{number}" for number in range(84, 100)]
