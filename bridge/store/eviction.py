"""Whether Redis throws keys away by itself."""

from __future__ import annotations

from redis.exceptions import ResponseError

from bridge.store.client import Store


async def evicting(store: Store) -> str | None:
    """The `maxmemory-policy` by which Redis evicts keys once it holds `maxmemory`; None: it evicts none, or does not
    tell (a managed one may refuse the question).

    Raises:
        StoreUnavailable
    """
    try:
        infos = await store.command_each("INFO", "memory")
    except ResponseError:
        return None
    for info in infos:
        told = dict(line.split(":", 1) for line in bytes(info).decode().splitlines() if ":" in line)
        policy = told.get("maxmemory_policy", "noeviction")
        if int(told.get("maxmemory", 0)) and policy != "noeviction":
            return policy
    return None
