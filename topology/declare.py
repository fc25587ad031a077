"""Putting a plan on the broker, and taking it off again."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import aiormq.abc
from aio_pika.abc import AbstractConnection
from aio_pika.exceptions import ChannelClosed, ChannelNotFoundEntity

from topology.channels import on_channels
from topology.errors import TopologyConflict, TopologyError, TopologyMissing
from topology.plan import Binding, Exchange, Plan, Queue

TIMEOUT_S: Final = 60.0

_INEQUIVALENT: Final = re.compile(
    r"inequivalent arg '(?P<argument>[^']*)'.* received (?P<required>.*) but current is (?P<found>.*)", re.DOTALL
)
_VALUE: Final = re.compile(r"(?:the value )?'(?P<value>.*?)'(?: of type '.*')?")


async def apply(connection: AbstractConnection, plan: Plan, *, timeout_s: float = TIMEOUT_S) -> None:
    """Declare all of the plan; what stands already with the same properties stays as it is.

    TopologyConflict: something stands with other properties. TopologyMissing: what is to be bound does not stand.
    TopologyError: the broker refused otherwise (no right, a bad argument). TimeoutError: not done within `timeout_s`.
    What was declared before a failure stands.
    """
    async with asyncio.timeout(timeout_s):
        await on_channels(connection, plan.exchanges, _declare_exchange)
        await on_channels(connection, plan.queues, _declare_queue)
        await on_channels(connection, plan.bindings, _bind)


async def remove(connection: AbstractConnection, plan: Plan, *, timeout_s: float = TIMEOUT_S) -> None:
    """Take all of the plan off the broker, in the reverse order; what is not there is passed over.

    Queues go with the messages in them: `drain` moves those first. Raises as `apply`.
    """
    async with asyncio.timeout(timeout_s):
        await on_channels(connection, reversed(plan.bindings), _unbind)
        await on_channels(connection, reversed(plan.queues), _delete_queue)
        # One by one: 3.10 fails inside when two exchanges that are bound to each other are deleted at once.
        await on_channels(connection, reversed(plan.exchanges), _delete_exchange, channels=1)


async def _declare_exchange(channel: aiormq.abc.AbstractChannel, exchange: Exchange) -> None:
    with _translated(exchange.name):
        await channel.exchange_declare(
            exchange.name, exchange_type=exchange.type, durable=True, arguments=dict(exchange.arguments)
        )


async def _declare_queue(channel: aiormq.abc.AbstractChannel, queue: Queue) -> None:
    with _translated(queue.name):
        await channel.queue_declare(queue.name, durable=True, arguments=dict(queue.arguments))


async def _bind(channel: aiormq.abc.AbstractChannel, binding: Binding) -> None:
    with _translated(binding.destination):
        if binding.destination_type == "queue":
            await channel.queue_bind(binding.destination, binding.source, binding.key)
        else:
            await channel.exchange_bind(binding.destination, binding.source, binding.key)


async def _unbind(channel: aiormq.abc.AbstractChannel, binding: Binding) -> None:
    with _translated(binding.destination):
        if binding.destination_type == "queue":
            await channel.queue_unbind(binding.destination, binding.source, binding.key)
        else:
            await channel.exchange_unbind(binding.destination, binding.source, binding.key)


async def _delete_queue(channel: aiormq.abc.AbstractChannel, queue: Queue) -> None:
    with _translated(queue.name):
        await channel.queue_delete(queue.name)


async def _delete_exchange(channel: aiormq.abc.AbstractChannel, exchange: Exchange) -> None:
    with _translated(exchange.name):
        await channel.exchange_delete(exchange.name)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    try:
        yield
    except ChannelClosed as exc:
        said = str(exc)
        if differs := _INEQUIVALENT.search(said):
            raise TopologyConflict(
                name=name,
                argument=differs["argument"],
                found=_bare(differs["found"]),
                required=_bare(differs["required"]),
                said=said,
            ) from exc
        kind = TopologyMissing if isinstance(exc, ChannelNotFoundEntity) else TopologyError
        raise kind(f"the broker refuses {name}: {said}") from exc


def _bare(text: str) -> str:
    value = _VALUE.fullmatch(text.strip())
    return value["value"] if value else text.strip()
