"""Checks whether Redis evicts keys."""

from __future__ import annotations

from redis.exceptions import ResponseError

from bridge.store.client import Store


async def evicting(store: Store) -> str | None:
    """Returns the `maxmemory-policy` with which Redis evicts keys when its memory is full. None: it evicts no keys, or
    refuses the command, as some managed servers do.

    Raises:
        StoreUnavailable
    """
    try:
        infos = await store.command_each("INFO", "memory")
    except ResponseError:
        return None
    for info in infos:
        fields = dict(line.split(":", 1) for line in bytes(info).decode().splitlines() if ":" in line)
        policy = fields.get("maxmemory_policy", "noeviction")
        if int(fields.get("maxmemory", 0)) and policy != "noeviction":
            return policy
    return None
