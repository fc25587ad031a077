"""Gathers all facts that the doctor's checks judge."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bridge.cli.doctor.facts.machine import Machine, machine
from bridge.cli.doctor.facts.management import Managed, Unusable, managed
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.rabbitmq import Nodes, nodes, planned
from bridge.cli.doctor.facts.redis import Redis, StoreAway, redis
from bridge.cli.doctor.facts.running import Running, running
from bridge.settings.amqp_urls import amqp_endpoints
from bridge.settings.settings import Settings

_WITHOUT_SETTINGS: Final = Missing("the settings can't be used")


@dataclass(frozen=True, kw_only=True, slots=True)
class Facts:
    """All facts that the checks judge. `wrong`: complaints about wrong settings. `unknown`: complaints about unknown
    settings. A field is `Missing` if its facts could not be gathered, with the reason."""

    wrong: Sequence[str] = ()
    unknown: Sequence[str] = ()
    machine: Machine | Missing = _WITHOUT_SETTINGS
    nodes: Nodes | Missing = _WITHOUT_SETTINGS
    management: Managed | Unusable | Missing = _WITHOUT_SETTINGS
    redis: Redis | StoreAway | Missing = _WITHOUT_SETTINGS
    running: Running | Missing = _WITHOUT_SETTINGS


async def gather(settings: Settings, unknown: Sequence[str], url: str) -> Facts:
    """Gathers and returns the facts about this machine, the servers that the settings name, and the bridge at the URL.
    `unknown`: complaints about unknown settings."""
    about_redis, about_running, about_machine = await asyncio.gather(redis(settings), running(url), machine(settings))
    topics = about_redis.seen.topics if isinstance(about_redis, Redis) else ()
    plan = planned(settings, topics)
    vhost = min(vhost for _, _, vhost in amqp_endpoints(settings.amqp_url))
    about_nodes, about_management = await asyncio.gather(nodes(settings, plan), managed(settings, vhost))
    return Facts(
        unknown=unknown,
        machine=about_machine,
        nodes=about_nodes,
        management=about_management,
        redis=about_redis,
        running=about_running,
    )
