"""The lanes that stand on the broker: those this process publishes to, and those that others have left or use."""

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
_AGAIN_AFTER_S = 600.0  # each look that finds no more is an error in the broker's log


class Lanes:
    """`standing`: the names with all lanes there are, `changed` is set when they are more or fewer than before."""

    def __init__(self, link: BrokerConnection, names: Names) -> None:
        self._link = link
        self._own = names
        self._again_s = -inf
        self.standing = names
        self.changed = asyncio.Event()

    async def look(self, *, now: bool = False) -> None:
        """Brings `standing` up to date; unless it is to be `now`, every ten minutes only.

        Raises:
            BrokerUnavailable
        """
        if monotonic() < self._again_s and not now:
            return
        connection = await self._link.connection()
        async with translated(_TIMEOUT_S):
            found = await with_lanes_found(connection, self._own)
        self._again_s = monotonic() + _AGAIN_AFTER_S
        if found != self.standing:
            log.info("topology.lanes", lanes=self._own.lanes, found=found.lanes)
            self.standing = found
            self.changed.set()
