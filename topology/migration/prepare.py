"""Declares the exchanges that clients behind the door (the proxy `bridge/door`) need in a new environment.

Such clients are unchanged clients of the delayed-message plugin. Nobody has declared the plugin's exchanges in the new
environment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from topology import plan
from topology.definitions import export
from topology.errors import TopologyError
from topology.management import Management, quoted
from topology.migration.facts import DELAYED, PLAIN_TYPE, without_vhost
from topology.migration.steps import refusal_of_name
from topology.migration.survey import exchange_of
from topology.names import Names

PlainType = Literal["direct", "fanout", "headers", "topic"]


class NotPrepared(TopologyError):
    """The exchange can't be declared: its name allows no ingress, it exists with another type, or the ingress queue is
    missing."""


async def prepare(management: Management, names: Names, vhost: str, exchange: str, kind: PlainType) -> Sequence[str]:
    """Declares the exchange with its plain type `kind`, and its ingress exchange with the binding to the ingress queue.
    Existing objects stay. Returns two texts: the exchange's name with its type, and the name of its ingress exchange.

    The exchange has the argument `x-delayed-type`, like a migrated exchange.

    Raises:
        NotPrepared: the name is not possible, the exchange has another type, or the ingress queue is missing.
        ManagementRefused: RabbitMQ refused the import.
        httpx2.HTTPError: RabbitMQ refused a question, or did not answer.
    """
    if refused := refusal_of_name(exchange, names):
        raise NotPrepared(f"{exchange!r}: {refused}")
    place = quoted(vhost)
    if not any(row["name"] == names.ingress for row in await management.get(f"queues/{place}")):
        raise NotPrepared(f"the virtual host {vhost} has no queue {names.ingress}: run a bridge there first")
    found = await exchange_of(management, vhost, exchange)
    if found is not None and found["type"] not in {DELAYED, kind}:
        raise NotPrepared(f"{exchange!r} exists, and is of type {found['type']}, not {kind}")
    own = {
        "name": exchange,
        "type": kind,
        "durable": True,
        "auto_delete": False,
        "internal": False,
        "arguments": {PLAIN_TYPE: kind},
    }
    ingress = export(plan.ingress_of(names, exchange), vhost)
    made = {part: [*map(without_vhost, rows)] for part, rows in ingress.items()}
    made["exchanges"] += [] if found is not None else [own]
    await management.change("POST", f"definitions/{place}", made)
    return [f"{exchange} ({kind if found is None else found['type']})", names.ingress_of(exchange)]
