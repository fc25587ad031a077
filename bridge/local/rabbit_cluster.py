"""Runs RabbitMQ nodes as one cluster, three by default."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path

from bridge.local.epmd import Epmd
from bridge.local.installation import HERE, Installation
from bridge.local.rabbitmq import ADVANCED_CONFIGURATION, RabbitNode


class _ClusterNode(RabbitNode):
    """A node that finds the other nodes by their names at its first boot."""

    peers: tuple[str, ...] = ()
    settings: Sequence[str] = ()

    def configuration(self) -> str:
        peers = [f"cluster_formation.classic_config.nodes.{i} = {peer}" for i, peer in enumerate(self.peers, start=1)]
        return super().configuration() + "\n".join(
            [
                "cluster_formation.peer_discovery_backend = classic_config",
                *peers,
                # Otherwise every queue's leader is on the node that the first bridge connects to.
                "queue_leader_locator = balanced",
                *self.settings,
                "",
            ]
        )


class RabbitCluster:
    """A cluster of `size` nodes on loopback. Each of `nodes` can be stopped, killed, frozen and started separately.

    `settings`: more lines of rabbitmq.conf. `advanced`: the text of advanced.config. `epmds`: a port mapper for each
    node, by which that node finds the others. Without `epmds` all nodes share one port mapper.
    """

    def __init__(
        self,
        data_dir: Path,
        size: int = 3,
        *,
        installation: Installation = HERE,
        settings: Sequence[str] = (),
        advanced: str = ADVANCED_CONFIGURATION,
        epmds: Sequence[Epmd] = (),
    ) -> None:
        self._epmds = epmds or [Epmd(data_dir / "epmd", installation=installation)] * size
        cookie = secrets.token_hex(20)
        names = [f"node{i}" for i in range(1, size + 1)]
        self.nodes = [
            _ClusterNode(
                data_dir / name,
                name=name,
                epmd=epmd,
                cookie=cookie,
                installation=installation,
                one_thread=True,
                advanced=advanced,
            )
            for name, epmd in zip(names, self._epmds, strict=True)
        ]
        founder = self.nodes[0].node_name
        for node in self.nodes:
            # RabbitMQ 4 waits at its start until its peers answer, so the founder has no peer but itself.
            node.settings = settings
            node.peers = tuple(dict.fromkeys((founder, node.node_name)))

    @property
    def amqp_urls(self) -> list[str]:
        """The AMQP URL of each node, in the order of `nodes`."""
        return [node.amqp_url for node in self.nodes]

    def start(self) -> None:
        """Starts every node that is down, and waits until all answer."""
        for epmd in self._epmds:
            epmd.start()
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
        for epmd in self._epmds:
            epmd.stop()

    def kill(self) -> None:
        """Sends SIGKILL to every node."""
        for node in self.nodes:
            node.kill()
        for epmd in self._epmds:
            epmd.kill()
