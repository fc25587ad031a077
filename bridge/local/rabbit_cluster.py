"""Runs three RabbitMQ nodes as one cluster."""

from __future__ import annotations

import secrets
from pathlib import Path

from bridge.local.epmd import Epmd
from bridge.local.installation import HERE, Installation
from bridge.local.rabbitmq import RabbitNode


class _ClusterNode(RabbitNode):
    """A node that finds the other nodes by their names at its first boot."""

    peers: tuple[str, ...] = ()

    def configuration(self) -> str:
        peers = [f"cluster_formation.classic_config.nodes.{i} = {peer}" for i, peer in enumerate(self.peers, start=1)]
        return super().configuration() + "\n".join(
            [
                "cluster_formation.peer_discovery_backend = classic_config",
                *peers,
                # Otherwise every queue's leader is on the node that the first bridge connects to.
                "queue_leader_locator = balanced",
                "",
            ]
        )


class RabbitCluster:
    """Three nodes on loopback. Each of `nodes` can be stopped, killed, frozen and started separately."""

    def __init__(self, data_dir: Path, size: int = 3, *, installation: Installation = HERE) -> None:
        self._epmd = Epmd(data_dir / "epmd", installation=installation)
        cookie = secrets.token_hex(20)
        names = [f"node{i}" for i in range(1, size + 1)]
        self.nodes = [
            _ClusterNode(
                data_dir / name,
                name=name,
                epmd=self._epmd,
                cookie=cookie,
                installation=installation,
                one_thread=True,
            )
            for name in names
        ]
        founder = self.nodes[0].node_name
        for node in self.nodes:
            # RabbitMQ 4 waits at its start until its peers answer, so the founder has no peer but itself.
            node.peers = tuple(dict.fromkeys((founder, node.node_name)))

    @property
    def amqp_urls(self) -> list[str]:
        """The AMQP URL of each node, in the order of `nodes`."""
        return [node.amqp_url for node in self.nodes]

    def start(self) -> None:
        """Starts every node that is down, and waits until all answer."""
        self._epmd.start()
        first, *others = self.nodes
        # The first node founds the cluster. The others join it and do not wait for each other.
        first.start()
        for node in others:
            node.launch()
        for node in others:
            node.wait_until_ready()

    def stop(self) -> None:
        """Stops every node gracefully, the last one first."""
        for node in reversed(self.nodes):
            node.stop()
        self._epmd.stop()

    def kill(self) -> None:
        """SIGKILL to every node."""
        for node in self.nodes:
            node.kill()
        self._epmd.kill()
