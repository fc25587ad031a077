"""What a process does, and which processes one `serve` is. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    API = "api"  # the HTTP API and the wires; every process has health and metrics
    CHECKPOINT = "checkpoint"  # releases what is due; records acks of AMQP consumers, audits
    PUSH = "push"  # calls receivers


Roles = frozenset[Role]
EVERY_ROLE: Roles = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Process:
    """`name`: after the first of its roles, and numbered."""

    name: str
    roles: Roles


def parse_roles(text: str) -> Roles:
    """
    Raises:
        ValueError: says which roles there are.
    """
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in set(Role)]:
        raise ValueError(f"{unknown[0]!r} is no role; there are {', '.join(Role)}")
    return frozenset(map(Role, names))


def processes(workers: int, roles: Collection[Role]) -> list[Process]:
    """So many, with the roles of each: all; but of several with both the API and the checkpoint the last one has the
    checkpoint, and the others have the rest, so that a flooded API makes nothing late."""
    shares = [frozenset(roles)] * workers
    if workers > 1 and {Role.API, Role.CHECKPOINT} <= shares[0]:
        shares = [shares[0] - {Role.CHECKPOINT}] * (workers - 1) + [frozenset({Role.CHECKPOINT})]
    counts: Counter[Role] = Counter()
    found: list[Process] = []
    for share in shares:
        first = next(role for role in Role if role in share)
        counts[first] += 1
        found.append(Process(f"{first}-{counts[first]}", share))
    return found
