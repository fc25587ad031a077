"""Defines the roles of a process and spreads them over the processes of one `serve`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    API = "api"  # serves the HTTP API and the wires; every process serves health and metrics
    CHECKPOINT = "checkpoint"  # releases due messages, records acks of AMQP consumers, audits
    PUSH = "push"  # sends callbacks to receivers


Roles = frozenset[Role]
EVERY_ROLE: Roles = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Process:
    """One process of `serve`. `name` is its first role and a number, such as `api-2`."""

    name: str
    roles: Roles


def parse_roles(text: str) -> Roles:
    """Parses role names separated by commas.

    Raises:
        ValueError: a role is unknown; the text names it, and lists the roles.
    """
    names = [name.strip() for name in text.split(",")]
    if unknown := [name for name in names if name not in set(Role)]:
        raise ValueError(f"{unknown[0]!r} is not a role; the roles are {', '.join(Role)}")
    return frozenset(map(Role, names))


def processes(workers: int, roles: Collection[Role]) -> list[Process]:
    """Returns `workers` processes with their roles. Each process has all of `roles`, with one exception. If there are
    several processes and `roles` has API and checkpoint, the last process has only the checkpoint. All other processes
    then have all other roles. So a flooded API delays no release."""
    roles_by_process = [frozenset(roles)] * workers
    if workers > 1 and {Role.API, Role.CHECKPOINT} <= roles_by_process[0]:
        others = roles_by_process[0] - {Role.CHECKPOINT}
        roles_by_process = [others] * (workers - 1) + [frozenset({Role.CHECKPOINT})]
    counts: Counter[Role] = Counter()
    named: list[Process] = []
    for own_roles in roles_by_process:
        first = next(role for role in Role if role in own_roles)
        counts[first] += 1
        named.append(Process(f"{first}-{counts[first]}", own_roles))
    return named
