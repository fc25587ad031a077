"""Tests that the bridge tries the nodes of a cluster one after the other."""

from __future__ import annotations

from time import monotonic

import pytest

from bridge.broker.client.connection import BreakerOpen, BrokerConnection
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from bridge.model.errors import BrokerUnavailable


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_a_call_refused_by_the_breaker_skips_no_node(rabbit: RabbitNode, refused: int) -> None:
    away = f"amqp://127.0.0.1:{free_ports(1)[0]}"
    breaker = Breaker(open_s=60)
    connection = BrokerConnection(
        [away, rabbit.amqp_url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=breaker
    )
    with pytest.raises(BrokerUnavailable):
        await connection.raw_connection()

    breaker.timed_out(monotonic(), monotonic())
    for _ in range(refused):
        with pytest.raises(BreakerOpen):
            await connection.raw_connection()
    breaker.answered(monotonic())

    assert await connection.raw_connection()
    await connection.drop()
