"""Holds the clients and settings that all calls of one pool share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.broker.broker import Broker
from bridge.service.topics.topics import Topics
from bridge.settings.pools import DEFAULT
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.messages.records import Records

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries


@dataclass(frozen=True, kw_only=True, slots=True)
class Context:
    """The clients and settings of one pool. `pool`: the pool's name. `tracing` None: deliveries are not traced."""

    store: Store
    records: Records
    broker: Broker
    topics: Topics
    settings: Settings
    pool: str = DEFAULT
    tracing: Deliveries | None = None

    def part_name(self, part: str) -> str:
        """Returns the name that a part of this pool (a server or a loop) has among the parts of all pools. Outside the
        default pool, the name begins with the pool's name."""
        return part if self.pool == DEFAULT else f"{self.pool}/{part}"
