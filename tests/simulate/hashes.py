"""Gives objects that libraries keep in sets a hash that does not come from their addresses.

The hashes decide the order of a set. An address depends on all memory that the process has used before: with such an
order, a small change of the code would change the whole trace, and so would a test that ran before.
"""

from __future__ import annotations

from itertools import count
from typing import Any, Final

from aiormq.abc import TaskWrapper
from redis.asyncio.connection import AbstractConnection

_NUMBERS: Final = count(1)


def install() -> None:
    """Changes the classes in this process."""
    for kind, hash_of in ((TaskWrapper, _of_task), (AbstractConnection, _of_connection)):
        type.__setattr__(kind, "__hash__", hash_of)


def _of_task(wrapper: Any) -> int:
    return hash(wrapper.task)


def _of_connection(connection: Any) -> int:
    if "simulated_hash" not in vars(connection):
        connection.simulated_hash = next(_NUMBERS)
    return int(connection.simulated_hash)
