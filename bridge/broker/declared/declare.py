"""Puts a plan on the broker over the bridge's connection, and takes it off again."""

from __future__ import annotations

from time import monotonic

import structlog
from aiormq.exceptions import ChannelNotFoundEntity

from bridge.broker.client.connection import BrokerConnection, translated
from bridge.model.errors import BrokerUnavailable
from topology import declare
from topology.channels import look_at_all
from topology.errors import TopologyConflict, TopologyError, TopologyMissing
from topology.plan import Plan

log = structlog.get_logger(__name__)

_TIMEOUT_S = 30.0  # for each lane: a new one takes a second; many queues on a busy cluster far longer
_BOUND_WITHIN_S = 1.0  # for each lane, what is bound already; a tenth of that on an idle broker
_BIND_AGAIN_AFTER_S = 30.0


class NotAllowed(BrokerUnavailable):
    """The user has no right to configure what is to be declared."""


class Vanished(BrokerUnavailable):
    """Something of what was declared, or stood, was gone when it was bound: somebody deletes it."""


class _Unanswered(BrokerUnavailable):
    """It was not declared in time."""


class Declarer:
    """Raises `BrokerUnavailable` where nothing else is said."""

    def __init__(self, link: BrokerConnection, *, lanes: int) -> None:
        self._link = link
        self._lanes = lanes
        self._within_s = _TIMEOUT_S * lanes
        self._bind_again_s = 0.0

    async def stands(self, queue: str) -> bool:
        """Whether there is such a queue."""
        channel = await self._link.channel()
        async with translated(_TIMEOUT_S):
            try:
                await channel.queue_declare(queue, passive=True)
            except ChannelNotFoundEntity:
                return False  # which has closed the channel
            await channel.close()
        return True

    async def depth(self, queue: str) -> int:
        """How many messages stand in the queue, without those that consumers hold.

        Raises:
            QueueMissing: it does not stand.
        """
        channel = await self._link.channel()
        async with translated(_TIMEOUT_S):
            declared = await channel.queue_declare(queue, passive=True)
            await channel.close()
        return declared.message_count or 0

    async def missing(self, wanted: Plan) -> Plan:
        """The exchanges and queues of it that do not stand."""
        connection = await self._link.connection()
        async with translated(self._within_s):
            exchanges = [one for one, found in (await look_at_all(connection, wanted.exchanges)).items() if not found]
            queues = [one for one, found in (await look_at_all(connection, wanted.queues)).items() if not found]
        return Plan(exchanges=tuple(exchanges), queues=tuple(queues))

    async def apply(self, wanted: Plan, *, stood: bool = False) -> None:
        """Declares all of it. `stood`: it was declared before, and is again in case somebody has deleted some of it.

        Raises:
            NotAllowed
            Vanished: of use once more.
        """
        try:
            await self._declare(Plan(exchanges=wanted.exchanges, queues=wanted.queues), self._within_s)
        except TopologyConflict as conflict:
            # It stands, with other arguments than ours: usable, and for an operator to look at.
            log.warning("topology.conflict", detail=str(conflict))
        bindings = Plan(bindings=wanted.bindings)
        if not stood:
            await self._declare(bindings, self._within_s)
        elif monotonic() >= self._bind_again_s:
            try:
                await self._declare(bindings, _BOUND_WITHIN_S * self._lanes)
            except _Unanswered:
                # While a node of a cluster is frozen, no other answers this (before Khepri), though messages pass.
                self._bind_again_s = monotonic() + _BIND_AGAIN_AFTER_S
                log.warning("topology.unanswered", detail="bindings that should stand were not declared again")

    async def remove(self, unwanted: Plan) -> None:
        """Takes all of it off the broker, queues with what is in them."""
        connection = await self._link.connection()
        try:
            async with translated(_TIMEOUT_S):
                await declare.remove(connection, unwanted, timeout_s=_TIMEOUT_S)
        except TopologyError as error:
            raise BrokerUnavailable(str(error)) from error

    async def _declare(self, wanted: Plan, timeout_s: float) -> None:
        connection = await self._link.connection()
        try:
            async with translated():
                try:
                    await declare.apply(connection, wanted, timeout_s=timeout_s)
                except TimeoutError:
                    raise _Unanswered("RabbitMQ did not declare in time") from None
        except TopologyConflict:
            raise
        except TopologyMissing as error:
            raise Vanished(str(error)) from error
        except TopologyError as error:
            if "ACCESS_REFUSED" in str(error):
                raise NotAllowed(str(error)) from error
            raise BrokerUnavailable(str(error)) from error
