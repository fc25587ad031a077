"""Runs Redis servers that share the hash slots of one Redis Cluster."""

from __future__ import annotations

from binascii import crc_hqx
from itertools import pairwise
from pathlib import Path

from bridge.local.installation import HERE, Installation
from bridge.local.redis import AppendFsync, RedisNode
from bridge.local.server import Startable

SLOTS = 16_384


class _Master(RedisNode):
    """A node with a part of the hash slots. It serves its part even while another node is away."""

    slots: tuple[int, int] = (0, 0)  # the first slot, and the one after the last
    met: bool = False  # whether the other nodes know it

    @property
    def bus_port(self) -> int:
        return self._cluster_bus_port

    def configuration(self) -> str:
        return super().configuration() + "cluster-require-full-coverage no\ncluster-node-timeout 2000\n"

    def is_ready(self) -> bool:
        info = self._ask("CLUSTER INFO")
        return f"cluster_slots_assigned:{SLOTS}" in info and "cluster_state:ok" in info if self.met else bool(info)

    def take_slots(self) -> None:
        first, behind = self.slots
        # Nodes with the same configuration epoch would first have to resolve that conflict.
        self._ask(f"CLUSTER SET-CONFIG-EPOCH {first + 1}")
        self._ask(f"CLUSTER ADDSLOTSRANGE {first} {behind - 1}")

    def meet(self, other: _Master) -> None:
        self._ask(f"CLUSTER MEET 127.0.0.1 {other.port} {other.bus_port}")
        other.met = True


class RedisCluster(Startable):
    """Masters on loopback, without replicas. Each of `nodes` can be stopped, killed, frozen and started separately."""

    def __init__(
        self,
        data_dir: Path,
        size: int = 3,
        *,
        appendfsync: AppendFsync = "always",
        installation: Installation = HERE,
        program: str = "redis-server",
    ) -> None:
        self.nodes = [
            _Master(
                data_dir / f"node{number}",
                appendfsync=appendfsync,
                cluster_enabled=True,
                installation=installation,
                program=program,
            )
            for number in range(1, size + 1)
        ]
        for node, part in zip(self.nodes, pairwise(SLOTS * at // size for at in range(size + 1)), strict=True):
            node.slots = part

    @property
    def url(self) -> str:
        """The URL for the bridge, with all nodes."""
        return f"redis+cluster://{','.join(f'127.0.0.1:{node.port}' for node in self.nodes)}"

    def holder(self, hash_tag: str) -> RedisNode:
        """Returns the node that holds the keys with the hash tag."""
        slot = crc_hqx(hash_tag.encode(), 0) % SLOTS
        return next(node for node in self.nodes if node.slots[0] <= slot < node.slots[1])

    def start(self) -> None:
        """Starts every node that is down, and waits until the nodes serve all hash slots."""
        for node in self.nodes:
            if not node.running:
                node.launch()
        for node in self.nodes:
            node.wait_until_ready()
        if not self.nodes[0].met:
            for node in self.nodes:
                node.take_slots()
            for node in self.nodes:
                self.nodes[0].meet(node)
            for node in self.nodes:
                node.wait_until_ready()

    def stop(self) -> None:
        """Stops every node gracefully."""
        for node in self.nodes:
            node.ask_to_stop()
        for node in self.nodes:
            node.wait_until_stopped()

    def kill(self) -> None:
        """Sends SIGKILL to every node."""
        for node in self.nodes:
            node.kill()
