"""Finds the lanes that exist on the broker: the lanes of this process, and further lanes that bridges with more lanes
have declared."""

from __future__ import annotations

import asyncio
from math import inf
from time import monotonic

import structlog

from bridge.broker.client.connection import BrokerConnection, translated
from topology.channels import with_lanes_found
from topology.names import Names

log = structlog.get_logger(__name__)

_TIMEOUT_S = 30.0
_AGAIN_AFTER_S = 600.0  # each refresh that finds no more lanes is an error in the broker's log


class Lanes:
    """The lanes that exist on the broker. `changed` is set when a refresh finds more or fewer lanes than before."""

    def __init__(self, connection: BrokerConnection, names: Names) -> None:
        self._connection = connection
        self._own = names
        self._again_s = -inf
        self._existing = names
        self.changed = asyncio.Event()

    @property
    def existing(self) -> Names:
        """The names of the broker's objects in all lanes that exist."""
        return self._existing

    @property
    def count(self) -> int:
        """The number of lanes that exist on the broker."""
        return self._existing.lanes

    async def refresh(self, *, now: bool = False) -> None:
        """Asks the broker which lanes exist, at most every ten minutes. `now`: asks in any case.

        Raises:
            BrokerUnavailable: RabbitMQ is away, or does not answer in time.
        """
        if monotonic() < self._again_s and not now:
            return
        connection = await self._connection.raw_connection()
        async with translated(_TIMEOUT_S):
            existing = await with_lanes_found(connection, self._own)
        self._again_s = monotonic() + _AGAIN_AFTER_S
        if existing != self._existing:
            log.info("topology.lanes", lanes=self._own.lanes, found=existing.lanes)
            self._existing = existing
            self.changed.set()
