"""Connects to the nodes of RabbitMQ, one after the other, until one answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from ssl import SSLContext
from typing import Final

_CONNECT_S: Final = 10.0


@dataclass(frozen=True, kw_only=True)
class Node:
    """The address of a RabbitMQ node. `tls`: the TLS context for connections to the node; None: without TLS."""

    host: str
    port: int
    tls: SSLContext | None = None


class Brokers:
    """Connects to the nodes of one cluster. Each call of `connect` begins with the next node."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = tuple(nodes)
        self._turn = 0

    async def connect(self, make: Callable[[], asyncio.Protocol]) -> asyncio.Transport:
        """Returns a connection to the first node that accepts it. `make`: returns the connection's protocol.

        Raises:
            OSError: no node accepted within 10 s each; the text names each node and the reason.
        """
        self._turn = (self._turn + 1) % len(self._nodes)
        reasons = []
        for node in self._nodes[self._turn :] + self._nodes[: self._turn]:
            try:
                async with asyncio.timeout(_CONNECT_S):
                    transport, _ = await asyncio.get_running_loop().create_connection(
                        make, node.host, node.port, ssl=node.tls
                    )
            except (OSError, TimeoutError) as error:
                reasons.append(f"{node.host}:{node.port}: {str(error) or 'no answer'}")
            else:
                return transport
        raise OSError("; ".join(reasons))
