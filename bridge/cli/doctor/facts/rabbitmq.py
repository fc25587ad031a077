"""Asks RabbitMQ over AMQP: which nodes answer, what the user may do, and what exists."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from bridge.cli.doctor.facts.missing import Missing
from bridge.model.tls import tls_failure
from bridge.settings.amqp_urls import amqp_endpoints
from bridge.settings.settings import Settings
from topology import plan
from topology.channels import look_at_all, with_lanes_found
from topology.connect import PikaConnection, connected
from topology.errors import LoginRefused, TopologyError, VhostRefused
from topology.names import Names
from topology.plan import Exchange, Plan, Queue
from topology.probe import PublishResult, barred_names, publishing
from topology.report import Difference
from topology.verify import unsuitable

CONNECT_S: Final = 5.0
_ASK_S: Final = 60.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Broker:
    """The facts that an AMQP connection showed. `unsuitable`: why the broker can't keep the promises. `existing`,
    `missing`: the names of the planned objects. `former`: the names of existing queues of an earlier version.
    `refused`: how many messages are ready in `delay.refused`. `unroutable`: how many are ready in `delay.unroutable`.
    `lanes`: how many lanes are declared, up to the first missing lane. `barred`: beginnings of names whose queues the
    user may not configure. `taken`: whether RabbitMQ confirmed, blocked or refused a publish."""

    names: Names
    unsuitable: Sequence[Difference]
    existing: Sequence[str]
    missing: Sequence[str]
    former: Sequence[str]
    refused: int
    unroutable: int
    lanes: int
    barred: Sequence[str]
    taken: PublishResult


@dataclass(frozen=True, kw_only=True, slots=True)
class Nodes:
    """The nodes of BRIDGE_AMQP_URL. `away`: why nodes could not be reached, by host and port. `login`: why nodes
    refused the login. `virtual_host`: why nodes refused the virtual host. `answered`: how many nodes accepted a
    connection. `broker`: the facts that the first of these nodes showed."""

    vhost: str
    away: Mapping[str, str] = field(default_factory=dict)
    login: Mapping[str, str] = field(default_factory=dict)
    virtual_host: Mapping[str, str] = field(default_factory=dict)
    answered: int = 0
    broker: Broker | Missing


def names_of(settings: Settings) -> Names:
    return Names(prefix=settings.prefix, ready=settings.ready_prefix, dead=settings.dead_prefix, lanes=settings.lanes)


def planned(settings: Settings, topics: Sequence[str]) -> Plan:
    """Returns the plan of the objects that a bridge declares at its start and for these topics, without the slots."""
    names, limit = names_of(settings), settings.delivery_limit
    return plan.merged((plan.core(names), *(plan.topic(names, topic, delivery_limit=limit) for topic in topics)))


async def nodes(settings: Settings, wanted: Plan) -> Nodes:
    away: dict[str, str] = {}
    login: dict[str, str] = {}
    virtual_host: dict[str, str] = {}
    broker: Broker | Missing = Missing("there is no connection to RabbitMQ; see 201, 202 and 203")
    answered = 0
    for url in (part.strip() for part in settings.amqp_url.split(",")):
        ((host, port, vhost),) = amqp_endpoints(url)
        where = f"{host}:{port}"
        try:
            async with AsyncExitStack() as stack:
                connection = await stack.enter_async_context(connected(url, timeout_s=CONNECT_S, tls=settings.tls))
                answered += 1
                if isinstance(broker, Missing):
                    async with asyncio.timeout(_ASK_S):
                        broker = await _seen(connection, url, settings, wanted)
        except LoginRefused as error:
            login[where] = str(error)
        except VhostRefused as error:
            virtual_host[where] = str(error)
        except (TopologyError, RuntimeError, OSError, TimeoutError) as error:  # aiormq raises RuntimeError too
            away[where] = tls_failure(error) or str(error) or "no answer in time"
    return Nodes(vhost=vhost, away=away, login=login, virtual_host=virtual_host, answered=answered, broker=broker)


async def _seen(connection: PikaConnection, url: str, settings: Settings, wanted: Plan) -> Broker:
    names = names_of(settings)
    items: tuple[Exchange | Queue, ...] = (*wanted.exchanges, *wanted.queues, *wanted.barring)
    found = {item.name: existing for item, existing in (await look_at_all(connection, items)).items()}
    barring = {queue.name for queue in wanted.barring}
    in_lanes = [found.get(lane.checkpoint) is not None for lane in names.each_lane]
    lanes = in_lanes.index(False) if False in in_lanes else (await with_lanes_found(connection, names)).lanes
    refused, letters = found.get(names.refused), found.get(names.unroutable)
    return Broker(
        names=names,
        unsuitable=await unsuitable(connection),
        existing=[name for name, existing in found.items() if existing is not None and name not in barring],
        missing=[name for name, existing in found.items() if existing is None and name not in barring],
        former=[name for name in barring if found[name] is not None],
        refused=0 if refused is None else refused.messages,
        unroutable=0 if letters is None else letters.messages,
        lanes=lanes,
        barred=await barred_names(connection, (f"{names.prefix}.", names.ready, names.dead)),
        taken=await publishing(url, timeout_s=CONNECT_S, tls=settings.tls),
    )
