"""Declares a plan on the broker, and deletes it again."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from aio_pika.exceptions import ChannelClosed, ChannelNotFoundEntity
from pamqp import commands

from topology.channels import look_at_all, on_channels
from topology.connection import Channel, Connection
from topology.errors import TopologyBarred, TopologyConflict, TopologyError, TopologyMissing
from topology.plan import Binding, Exchange, Plan, Queue

TIMEOUT_S: Final = 60.0

_INEQUIVALENT: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']*)'.* received (?P<required>.*) but current is (?P<found>.*)", re.DOTALL
)
_VALUE: Final = re.compile(r"(?:the value )?'(?P<value>.*?)'(?: of type '.*')?")


async def apply(connection: Connection, plan: Plan, *, timeout_s: float = TIMEOUT_S) -> None:
    """Declares the whole plan with its `later` queues, then removes the plan's `former` bindings.

    Objects that exist with the same properties stay as they are. After a failure, the objects that were declared before
    it remain.

    Raises:
        TopologyBarred: a queue of an earlier version exists. Nothing was declared.
        TopologyConflict: an object exists with other properties.
        TopologyMissing: the source or the destination of a binding does not exist.
        TopologyError: the broker refused for another reason, such as a missing permission or a bad argument.
        TimeoutError: not done within `timeout_s`.
    """
    async with asyncio.timeout(timeout_s):
        for queue, existing in (await look_at_all(connection, plan.barring)).items():
            if existing:
                raise TopologyBarred(queue.name)
        await on_channels(connection, plan.exchanges, _declare_exchange)
        await on_channels(connection, plan.every_queue, _declare_queue)
        await on_channels(connection, plan.bindings, _bind)
        await on_channels(connection, plan.former, _unbind)


async def remove(connection: Connection, plan: Plan, *, timeout_s: float = TIMEOUT_S) -> None:
    """Deletes the whole plan from the broker, in the reverse order. Skips missing objects.

    The messages in a deleted queue are lost, so `drain` moves them first.

    Raises:
        TopologyError: the broker refused, for example because a permission is missing.
        TimeoutError: not done within `timeout_s`.
    """
    async with asyncio.timeout(timeout_s):
        await on_channels(connection, reversed(plan.bindings), _unbind)
        await on_channels(connection, reversed(plan.every_queue), _delete_queue)
        # One by one: RabbitMQ 3.10 fails when two exchanges that are bound to each other are deleted at the same time.
        await on_channels(connection, reversed(plan.exchanges), _delete_exchange, channels=1)


async def _declare_exchange(channel: Channel, exchange: Exchange) -> None:
    with _translated(exchange.name):
        await channel.rpc(
            commands.Exchange.Declare(
                exchange=exchange.name, exchange_type=exchange.type, durable=True, arguments=dict(exchange.arguments)
            )
        )


async def _declare_queue(channel: Channel, queue: Queue) -> None:
    with _translated(queue.name):
        await channel.rpc(commands.Queue.Declare(queue=queue.name, durable=True, arguments=dict(queue.arguments)))


async def _bind(channel: Channel, binding: Binding) -> None:
    of = commands.Queue if binding.destination_type == "queue" else commands.Exchange
    with _translated(binding.destination):
        await channel.rpc(of.Bind(0, binding.destination, binding.source, binding.key))


async def _unbind(channel: Channel, binding: Binding) -> None:
    of = commands.Queue if binding.destination_type == "queue" else commands.Exchange
    with _translated(binding.destination):
        await channel.rpc(of.Unbind(0, binding.destination, binding.source, binding.key))


async def _delete_queue(channel: Channel, queue: Queue) -> None:
    with _translated(queue.name):
        await channel.rpc(commands.Queue.Delete(queue=queue.name))


async def _delete_exchange(channel: Channel, exchange: Exchange) -> None:
    with _translated(exchange.name):
        await channel.rpc(commands.Exchange.Delete(exchange=exchange.name))


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except ChannelClosed as exc:
        text = str(exc)
        if differs := _INEQUIVALENT.search(text):
            raise TopologyConflict(
                name=name,
                argument=differs["argument"],
                found=_bare(differs["found"]),
                required=_bare(differs["required"]),
                text=text,
            ) from exc
        kind = TopologyMissing if isinstance(exc, ChannelNotFoundEntity) else TopologyError
        raise kind(f"the broker refuses {name}: {text}") from exc


def _bare(text: str) -> str:
    value = _VALUE.fullmatch(text.strip())
    return value["value"] if value else text.strip()
