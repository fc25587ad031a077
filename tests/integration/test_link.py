"""Whose turn it is, of the nodes of a cluster."""

from __future__ import annotations

from time import monotonic

import pytest

from bridge.broker.client.connection import BrokerConnection, Refused
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.model.breaker import Breaker
from bridge.model.errors import BrokerUnavailable


@pytest.mark.parametrize("refused", [0, 1, 2])
async def test_a_call_that_the_breaker_refuses_takes_no_nodes_turn(rabbit: RabbitNode, refused: int) -> None:
    away = f"amqp://127.0.0.1:{free_ports(1)[0]}"
    breaker = Breaker(open_s=60)
    link = BrokerConnection(
        [away, rabbit.amqp_url], purpose="test", timeout_ms=10_000, check=lambda _: None, breaker=breaker
    )
    with pytest.raises(BrokerUnavailable):
        await link.connection()

    breaker.timed_out(monotonic(), monotonic())
    for _ in range(refused):
        with pytest.raises(Refused):
            await link.connection()
    breaker.answered(monotonic())

    assert await link.connection()
    await link.drop()
