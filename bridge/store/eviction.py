"""Checks whether Redis evicts keys."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.model.errors import StoreRefused
from bridge.store.client import Store
from bridge.store.replies import binary


async def evicting(store: Store) -> str | None:
    """Returns the `maxmemory-policy` with which Redis evicts keys when its memory is full. None: Redis evicts no keys,
    or refuses INFO (some managed servers do).

    Raises:
        StoreUnavailable: Redis did not answer.
    """
    try:
        infos = await store.command_each("INFO", "memory")
    except StoreRefused:
        return None
    return next((policy for info in infos if (policy := evicting_policy(fields_of(binary(info))))), None)


def fields_of(info: bytes) -> dict[str, str]:
    """Returns the fields of an answer to INFO, by name."""
    return dict(line.split(":", 1) for line in info.decode().splitlines() if ":" in line)


def evicting_policy(info: Mapping[str, str]) -> str | None:
    """Returns the `maxmemory-policy` if this server evicts keys when its memory is full. None: it evicts none. `info`:
    the server's fields of INFO."""
    policy = info.get("maxmemory_policy", "noeviction")
    return policy if int(info.get("maxmemory", 0)) and policy != "noeviction" else None


def evicts(policy: str) -> str:
    """Returns a warning that says what the `maxmemory-policy` does."""
    return (
        f"Redis' maxmemory-policy is {policy}: when full, it evicts records of messages, of deletes and of"
        " topics' policies; it must be noeviction"
    )
