"""Tests the loop, the network and the clock of Redis without a bridge."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from tests.simulate.clock import EPOCH_S, Clock
from tests.simulate.loop import PROCESS, SimulatedLoop
from tests.simulate.network import Link, Network
from tests.simulate.store import COMPILER, NO_COMPILER, PrivateRedis, SimulatedRedis
from tests.simulate.trace import Trace


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop(clock: Clock) -> Iterator[SimulatedLoop]:
    loop = SimulatedLoop(clock, Random(1))
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def redis(local_dir: Path) -> Iterator[PrivateRedis]:
    if COMPILER is None:
        pytest.skip(NO_COMPILER)
    with PrivateRedis(local_dir / "simulated-redis") as node:
        yield node


class _Echo:
    """Sends back what it receives."""

    def __init__(self) -> None:
        self.lost_links = 0

    def accept(self, link: Link) -> _EchoPeer:
        return _EchoPeer(self, link)


class _EchoPeer:
    def __init__(self, server: _Echo, link: Link) -> None:
        self._server = server
        self._link = link

    def received(self, data: bytes) -> None:
        self._link.send(data)

    def lost(self) -> None:
        self._server.lost_links += 1


@pytest.fixture
def network(loop: SimulatedLoop, clock: Clock) -> Network:
    network = Network(loop, Random(2), Trace(clock))
    network.servers["echo", 7] = "echo", _Echo()
    return network


def test_hour_passes_at_once(loop: SimulatedLoop, clock: Clock) -> None:
    loop.run_until_complete(asyncio.sleep(3_600))
    assert clock.elapsed_s == pytest.approx(3_600)


def test_seed_decides_the_order_of_ready_tasks(clock: Clock) -> None:
    def order(seed: int) -> list[int]:
        ran: list[int] = []

        async def note(number: int) -> None:
            ran.append(number)

        async def all_at_once() -> None:
            await asyncio.gather(*map(note, range(10)))

        loop = SimulatedLoop(clock, Random(seed))
        loop.run_until_complete(all_at_once())
        loop.close()
        return ran

    assert order(1) == order(1) != order(2)


def test_dead_process_runs_no_further(loop: SimulatedLoop) -> None:
    ran: list[str] = []

    async def work() -> None:
        PROCESS.set(7)
        ran.append("first")
        await asyncio.sleep(2)
        ran.append("second")

    async def main() -> None:
        working = loop.create_task(work())
        await asyncio.sleep(1)
        loop.kill(7)
        await asyncio.sleep(9)
        assert not working.done()
        cast(Any, working)._log_destroy_pending = False

    loop.run_until_complete(main())
    assert ran == ["first"]


def test_bytes_of_a_connection_keep_their_order(loop: SimulatedLoop, network: Network) -> None:
    async def main() -> bytes:
        reader, writer = await asyncio.open_connection("echo", 7)
        for number in range(100):
            writer.write(b"%d," % number)
        received = await reader.readexactly(290)
        writer.close()
        return received

    assert loop.run_until_complete(main()) == b"".join(b"%d," % number for number in range(100))


def test_cut_connection_is_lost_on_both_sides(loop: SimulatedLoop, network: Network) -> None:
    async def main() -> None:
        reader, writer = await asyncio.open_connection("echo", 7)
        writer.write(b"never answered")
        for link in network.links():
            link.cut(loses=True)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        await asyncio.sleep(1)

    loop.run_until_complete(main())
    _, echo = network.servers["echo", 7]
    assert isinstance(echo, _Echo)
    assert echo.lost_links == 1


def test_cut_connection_that_the_server_has_just_closed_is_lost(loop: SimulatedLoop, network: Network) -> None:
    async def main() -> None:
        reader, writer = await asyncio.open_connection("echo", 7)
        (link,) = network.links()
        link.close()
        link.cut(loses=True)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()

    loop.run_until_complete(asyncio.wait_for(main(), 5))


def test_held_answer_comes_when_the_partition_ends(loop: SimulatedLoop, network: Network, clock: Clock) -> None:
    async def main() -> None:
        reader, writer = await asyncio.open_connection("echo", 7)
        (link,) = network.links()
        link.hold(up=False, down=True)
        writer.write(b"x")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readexactly(1), 5)
        link.hold(up=False, down=False)
        assert await reader.readexactly(1) == b"x"
        writer.close()

    loop.run_until_complete(main())
    assert clock.elapsed_s == pytest.approx(5, abs=0.1)


def test_replica_lacks_the_writes_since_it_was_copied(redis: PrivateRedis, clock: Clock) -> None:
    simulated = SimulatedRedis(redis, clock, Trace(clock))
    simulated.command("SET", "first", "kept", "PX", 5_000)
    simulated.replicate()
    simulated.command("SET", "second", "forgotten")
    simulated.fail_over()
    assert simulated.command("KEYS", "*") == [b"first"]
    assert simulated.command("PTTL", "first") == 5_000
    simulated.close()


def test_clock_of_redis_may_be_ahead(redis: PrivateRedis, clock: Clock) -> None:
    simulated = SimulatedRedis(redis, clock, Trace(clock))
    simulated.ahead_ms = -3_600_000
    assert simulated.command("TIME") == [b"%d" % (EPOCH_S - 3_600), b"0"]
    simulated.close()


def test_key_of_redis_expires_in_virtual_time(redis: PrivateRedis, clock: Clock) -> None:
    simulated = SimulatedRedis(redis, clock, Trace(clock))
    simulated.command("SET", "key", "value", "PX", 1_000)
    assert simulated.command("TIME") == [b"%d" % EPOCH_S, b"0"]
    clock.monotonic_s += 0.9
    assert simulated.command("GET", "key") == b"value"
    clock.monotonic_s += 0.2
    assert simulated.command("GET", "key") is None
    simulated.close()


@pytest.mark.parametrize(
    "fault",
    [
        ("REPLICAOF", "127.0.0.1", "1"),
        ("CONFIG", "SET", "maxmemory", "1"),
        ("CONFIG", "SET", "min-replicas-to-write", "1"),
    ],
)
def test_next_simulation_can_write_after_one_that_was_killed_in_a_fault(
    redis: PrivateRedis, clock: Clock, fault: tuple[str, ...]
) -> None:
    killed = SimulatedRedis(redis, clock, Trace(clock))
    killed.command(*fault)
    killed.close()
    simulated = SimulatedRedis(redis, clock, Trace(clock))
    simulated.command("SET", "key", "value")
    assert simulated.command("GET", "key") == b"value"
    simulated.close()
