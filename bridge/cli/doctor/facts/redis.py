"""Asks Redis for the state that it reports of itself."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.model.errors import StoreUnavailable
from bridge.settings.settings import Settings
from bridge.store.client import Store
from bridge.store.inspection import Inspection, StoreLoginRefused, inspect
from bridge.store.keys import Keys


@dataclass(frozen=True, slots=True)
class StoreAway:
    """Redis could not be asked. `login`: whether it refused user or password."""

    reason: str
    login: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Redis:
    """The facts that Redis showed. `own_buckets`: the setting BRIDGE_INDEX_BUCKETS."""

    seen: Inspection
    own_buckets: int


async def redis(settings: Settings) -> Redis | StoreAway:
    keys = Keys(settings.redis_prefix, settings.index_buckets)
    store = Store(settings.redis_url, timeout_ms=settings.store_timeout, tls=settings.tls)
    try:
        return Redis(seen=await inspect(store, keys), own_buckets=settings.index_buckets)
    except StoreUnavailable as error:
        return StoreAway(str(error), login=isinstance(error, StoreLoginRefused))
    finally:
        await store.close()
