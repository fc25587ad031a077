"""Tests which probe answers which call."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from math import inf
from time import monotonic

import pytest

from bridge.broker.declared.findings import Finding
from bridge.model.errors import BrokerUnavailable
from bridge.service.health.probed import Probed


class Server:
    """Its probes end when a test says how."""

    def __init__(self) -> None:
        self.ends: list[asyncio.Future[None]] = []
        self.begun = asyncio.Semaphore(0)
        self.troubled_s = -inf
        self.probed = Probed(self.probe, lambda: self.troubled_s, server="RabbitMQ", part="broker", within_s=60)

    async def probe(self) -> Sequence[Finding]:
        self.ends.append(asyncio.get_running_loop().create_future())
        self.begun.release()
        await self.ends[-1]
        return []

    def call(self) -> asyncio.Task[str]:
        async def state() -> str:
            return (await self.probed.result()).state

        return asyncio.create_task(state())


AWAY = BrokerUnavailable("the connection was lost")


async def test_calls_share_a_probe_whose_result_is_good() -> None:
    server = Server()
    calls = [server.call() for _ in range(3)]
    await server.begun.acquire()
    calls.append(server.call())
    await asyncio.sleep(0)
    server.ends[0].set_result(None)
    assert await asyncio.gather(*calls) == ["ok"] * 4
    assert await server.call() == "ok"
    assert len(server.ends) == 1


async def test_a_bad_result_is_no_answer_to_calls_that_came_while_its_probe_went_on() -> None:
    server = Server()
    first = server.call()
    await server.begun.acquire()
    later = [server.call() for _ in range(2)]
    await asyncio.sleep(0)
    server.ends[0].set_exception(AWAY)
    assert await first == str(AWAY)
    await server.begun.acquire()
    server.ends[1].set_result(None)
    assert await asyncio.gather(*later) == ["ok"] * 2
    assert len(server.ends) == 2


@pytest.mark.parametrize("is_under_way", [True, False])
async def test_a_good_result_answers_no_later_call_if_a_send_has_failed_since_its_probe_began(
    is_under_way: bool,
) -> None:
    server = Server()
    first = server.call()
    await server.begun.acquire()
    server.troubled_s = monotonic()
    later = [server.call()] if is_under_way else []
    await asyncio.sleep(0)
    server.ends[0].set_result(None)
    assert await first == "ok"
    later = later or [server.call()]
    await server.begun.acquire()
    server.ends[1].set_exception(AWAY)
    assert await asyncio.gather(*later) == [str(AWAY)]


async def test_a_bad_result_answers_no_later_call() -> None:
    server = Server()
    first = server.call()
    await server.begun.acquire()
    server.ends[0].set_exception(AWAY)
    assert await first == str(AWAY)
    second = server.call()
    await server.begun.acquire()
    server.ends[1].set_exception(AWAY)
    assert await second == str(AWAY)
