"""Declares a plan's exchanges, queues and bindings over the bridge's connection, and deletes them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from time import monotonic

import structlog

from bridge.broker.client.connection import BrokerConnection, translated
from bridge.model.errors import BrokerUnavailable, BrokerUnfit, Undeclarable
from topology import declare
from topology.channels import look_at_all
from topology.errors import TopologyBarred, TopologyConflict, TopologyError, TopologyMissing
from topology.plan import Plan, Queue

log = structlog.get_logger(__name__)

_TIMEOUT_S = 30.0  # for each lane: to declare a new lane takes a second; many queues on a busy cluster take far longer
_BOUND_WITHIN_S = 1.0  # for each lane, for bindings that exist; an idle broker takes a tenth of this
_BIND_AGAIN_AFTER_S = 30.0


class DeclareRefused(BrokerUnavailable):
    """RabbitMQ refuses to declare an object, for example because the virtual host has reached its limit of queues.
    RabbitMQ answers other calls."""


class _OverLimit(DeclareRefused, Undeclarable):
    """A limit of the virtual host prevents the declare."""


class NotAllowed(DeclareRefused, Undeclarable):
    """The user of `BRIDGE_AMQP_URL` has no right to configure an object."""


class Vanished(BrokerUnavailable):
    """An exchange or queue was gone when the bridge bound it, so somebody is deleting it."""


class _Unanswered(BrokerUnavailable):
    """RabbitMQ did not answer a declare in time."""


class Declarer:
    """Declares and deletes objects. Every method raises `BrokerUnavailable` if RabbitMQ does not answer in time."""

    def __init__(self, connection: BrokerConnection, *, lanes: int) -> None:
        self._connection = connection
        self._lanes = lanes
        self._within_s = _TIMEOUT_S * lanes
        self._bind_again_s = 0.0

    async def exists(self, queue: str) -> bool:
        """Whether RabbitMQ has the queue."""
        return await self._connection.queue_exists(queue, _TIMEOUT_S)

    async def depth(self, queue: str) -> int:
        """Returns how many messages are ready in the queue. Messages that consumers hold do not count.

        Raises:
            QueueMissing: there is no such queue.
        """
        return await self._connection.depth(queue, _TIMEOUT_S)

    async def depths(self, queues: Iterable[Queue]) -> dict[str, int]:
        """Returns how many messages are ready in each queue, by name. Leaves out missing queues."""
        connection = await self._connection.raw_connection()
        async with translated(self._within_s):
            existing = await look_at_all(connection, queues)
        return {queue.name: found.messages for queue, found in existing.items() if found is not None}

    async def missing(self, wanted: Plan) -> Plan:
        """Returns a plan of those exchanges and queues of `wanted` that RabbitMQ does not have."""
        connection = await self._connection.raw_connection()
        async with translated(self._within_s):
            exchanges = await look_at_all(connection, wanted.exchanges)
            queues = await look_at_all(connection, wanted.queues)
        return Plan(
            exchanges=tuple(exchange for exchange, exists in exchanges.items() if not exists),
            queues=tuple(queue for queue, exists in queues.items() if not exists),
        )

    async def apply(self, wanted: Plan, *, existed: bool = False) -> None:
        """Declares the whole plan, and removes the bindings of earlier versions that the plan names. An object that
        exists with other arguments stays as it is, and is logged.

        `existed`: the plan was declared before, and is declared again in case somebody has deleted a part of it.

        Raises:
            BrokerUnfit: a queue of an earlier version exists, and conflicts with the plan.
            NotAllowed: the bridge's user has no right to configure an object.
            DeclareRefused: RabbitMQ refuses an object for another reason, such as a limit of queues.
            Vanished: an object was deleted meanwhile. A second call may succeed.
        """
        try:
            objects = Plan(exchanges=wanted.exchanges, queues=wanted.queues, barring=wanted.barring)
            await self._declare(objects, self._within_s)
        except TopologyConflict as conflict:
            # The object exists with other arguments than ours. The bridge can use it, and an operator has to decide.
            log.warning("topology.conflict", detail=str(conflict))
        bindings = Plan(bindings=wanted.bindings, former=wanted.former)
        if not existed:
            await self._declare(bindings, self._within_s)
        elif monotonic() >= self._bind_again_s:
            try:
                await self._declare(bindings, _BOUND_WITHIN_S * self._lanes)
            except _Unanswered:
                # While a node of a cluster is frozen, the other nodes do not answer declares (before Khepri), though
                # messages pass.
                self._bind_again_s = monotonic() + _BIND_AGAIN_AFTER_S
                log.warning("topology.unanswered", detail="bindings that should exist were not declared again")

    async def remove(self, unwanted: Plan) -> None:
        """Deletes all objects of the plan, and the messages in its queues.

        Raises:
            NotAllowed: a queue of the plan exists, and the bridge's user may not delete the plan's objects.
            BrokerUnavailable: RabbitMQ is away, does not answer in time, or failed.
        """
        connection = await self._connection.raw_connection()
        try:
            async with translated(_TIMEOUT_S):
                await declare.remove(connection, unwanted, timeout_s=_TIMEOUT_S)
        except TopologyError as error:
            if not _is_refusal(error):
                raise BrokerUnavailable(str(error)) from error
            # RabbitMQ refuses before it looks for the queue, so ask whether another user has deleted it.
            async with translated(_TIMEOUT_S):
                found = await look_at_all(connection, unwanted.every_queue)
            if any(found.values()):
                raise NotAllowed(f"{error}; a user with the right to configure has to delete it") from error

    async def _declare(self, wanted: Plan, timeout_s: float) -> None:
        connection = await self._connection.raw_connection()
        try:
            async with translated():
                try:
                    await declare.apply(connection, wanted, timeout_s=timeout_s)
                except TimeoutError:
                    raise _Unanswered("RabbitMQ did not declare in time") from None
        except TopologyConflict:
            raise
        except TopologyBarred as error:
            raise BrokerUnfit(str(error)) from error
        except TopologyMissing as error:
            raise Vanished(str(error)) from error
        except TopologyError as error:
            if _is_refusal(error):
                raise NotAllowed(f"{error}; declare it with `delaybridge topology apply`, as another user") from error
            if "PRECONDITION_FAILED" in str(error):
                raise _OverLimit(str(error)) from error
            raise DeclareRefused(str(error)) from error


def _is_refusal(error: TopologyError) -> bool:
    return "ACCESS_REFUSED" in str(error)


async def once_more(declare: Callable[[], Awaitable[None]]) -> None:
    """Calls `declare`, and calls it a second time if it raises `Vanished`.

    RabbitMQ notifies the consumers of a deleted queue before the queue is gone. Until the queue is gone, a declare of
    it succeeds.
    """
    try:
        await declare()
    except Vanished:
        await declare()
