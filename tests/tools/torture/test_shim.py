"""Tests that the library lies to a Redis server about the time and slows its disk."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from redis import Redis

from tests.torture.servers import TormentedRedis
from tests.torture.shim import Shim


def ahead_s(client: Redis) -> float:
    seconds, micros = client.time()
    return float(seconds + micros / 1_000_000 - time.time())


def test_clock_and_disk_of_redis_follow_the_shim(local_dir: Path) -> None:
    shim = Shim(local_dir / "shim", "redis")
    shim.build()
    if shim.missing:
        pytest.skip(shim.missing)
    with TormentedRedis(local_dir / "redis-shim", shim) as redis, Redis.from_url(redis.url) as client:
        for offset_ms in (0, 20_000, -3_600_000):
            shim.set(ahead_ms=offset_ms)
            # A pause between the two looks adds to the difference, and the steps are longer by far.
            assert ahead_s(client) == pytest.approx(offset_ms / 1_000, abs=5)
        shim.set(sync_ms=300)
        began_s = time.monotonic()
        client.set("a", "b")
        assert time.monotonic() - began_s >= 0.3
