"""Runs a cluster of three RabbitMQ nodes, and cuts or silences their connections to each other, also in one direction.

Each node has a port mapper of its own, which names proxies for the other nodes. So no privileges are needed.
"""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from random import Random
from typing import Final

from bridge.local.epmd import Epmd
from bridge.local.installation import Installation
from bridge.local.rabbit_cluster import RabbitCluster
from bridge.local.rabbitmq import ADVANCED_CONFIGURATION
from bridge.local.server import Server
from tests.proxy import Proxy
from tests.torture.parts import OF_PROCESS, Part
from tests.torture.plan import Kind
from tests.torture.servers import START_TIMEOUT_S

_SIZE: Final = 3
_SETTINGS: Final = ("cluster_partition_handling = pause_minority",)
# A node that hears nothing from another considers it down after four to six seconds.
_ADVANCED: Final = ADVANCED_CONFIGURATION.replace("[", "[{kernel, [{net_ticktime, 5}]}, ", 1)
_ALIVE, _VISIBLE_NODE, _TCP, _VERSION = 120, 77, 0, 5  # epmd's protocol


class Cluster(Part):
    """Three nodes of a version, each behind a proxy for AMQP clients. A fault hits any of them."""

    def __init__(self, folder: Path, seed: int, installation: Installation) -> None:
        self._random = Random(seed)
        self._epmds = [Epmd(folder / f"epmd{number}", installation=installation) for number in range(_SIZE)]
        self._cluster = RabbitCluster(
            folder / "rabbitmq",
            installation=installation,
            settings=_SETTINGS,
            advanced=_ADVANCED,
            epmds=self._epmds,
        )
        self.servers = self._cluster.nodes
        for node in self._cluster.nodes:
            node.start_timeout_seconds = START_TIMEOUT_S
        self._by_node = [Proxy(node.amqp_url) for node in self._cluster.nodes]
        # By the node that connects and the node it connects to.
        self._between = {
            (one, other): Proxy(f"tcp://127.0.0.1:{other.dist_port}")
            for one in self._cluster.nodes
            for other in self._cluster.nodes
            if one is not other
        }
        self.proxies = [*self._by_node, *self._between.values()]
        self._registrations: list[asyncio.StreamWriter] = []

    @property
    def url(self) -> str:
        return ",".join(proxy.url for proxy in self._by_node)

    @property
    def hit(self) -> Server:
        return self._random.choice(self.servers)

    @property
    def proxy(self) -> Proxy:
        return self._random.choice(self._by_node)

    def lacks(self, kind: Kind) -> str:
        possible = (*OF_PROCESS, Kind.CUT, Kind.SLOW, Kind.PARTITION)
        return "" if kind in possible else "the nodes of a cluster run without a shim"

    def start(self) -> None:
        self._cluster.start()

    def kill(self) -> None:
        self._cluster.kill()  # a registration ends with its port mapper; another thread may not close it

    async def prepare(self) -> None:
        await super().prepare()
        for epmd in self._epmds:
            await asyncio.to_thread(epmd.start)
        for (one, other), proxy in self._between.items():
            epmd = self._epmds[self._cluster.nodes.index(one)]
            self._registrations.append(await _registered(epmd.port, other.name, proxy))

    async def partition(self, seconds: float, *, one_way: bool) -> str:
        """Parts a node from the other two, and returns its name. With `one_way` the node is heard and hears nothing."""
        alone = self._random.choice(self._cluster.nodes)
        cut = [pair for pair in self._between if alone in pair]
        for one, other in cut:
            proxy = self._between[one, other]
            if one_way:
                proxy.fall_silent(requests=other is alone, answers=one is alone)
            else:
                proxy.cut()
        await asyncio.sleep(seconds)
        for pair in cut:
            self._between[pair].speak()
            self._between[pair].mend()
        return alone.name


async def _registered(epmd_port: int, name: str, proxy: Proxy) -> asyncio.StreamWriter:
    """Registers a node at the proxy's port. The registration ends with the connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", epmd_port)
    request = struct.pack(">BHBBHHH", _ALIVE, proxy.port, _VISIBLE_NODE, _TCP, _VERSION, _VERSION, len(name))
    request += name.encode() + struct.pack(">H", 0)
    writer.write(struct.pack(">H", len(request)) + request)
    answer = await reader.readexactly(2)
    assert answer[1] == 0, f"epmd refused {name}"
    return writer
