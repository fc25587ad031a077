"""What every way through works with."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.broker.broker import Broker
from bridge.pool_settings import DEFAULT
from bridge.service.topics import Topics
from bridge.settings import Settings
from bridge.store.client import Store
from bridge.store.records import Records


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    store: Store
    records: Records
    broker: Broker
    topics: Topics
    settings: Settings
    pool: str = DEFAULT
