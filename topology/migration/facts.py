"""Reads what a RabbitMQ definitions export says about exchanges of the delayed-message plugin. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from topology.names import Names

DELAYED: Final = "x-delayed-message"
PLAIN_TYPE: Final = "x-delayed-type"
"""The argument that names the type by which the plugin routes. A plain exchange keeps the argument, which shows that
the exchange was of the plugin's type."""

Definition = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class OldExchange:
    """An exchange that is or was of the type of the delayed-message plugin.

    `definition` and `bindings` have the form of a RabbitMQ definitions export. `bindings` lead from or to the exchange.
    `kind`: the exchange's present type, or None if the exchange does not exist. `held`: how many messages wait in the
    plugin of the node that was asked; None: unknown. `elsewhere`: the other nodes, whose plugins hold messages of their
    own. `has_ingress`: the exchange's ingress exchange exists, and feeds the ingress queue.

    The other members say who would notice a change. `users` may write to the exchange and not to its ingress. `feeders`
    are exchanges, queues and policies that route messages to it. `policies` apply to it.
    """

    name: str
    kind: str | None
    definition: Definition
    bindings: Sequence[Definition] = ()
    held: int | None = None
    elsewhere: Sequence[str] = ()
    has_ingress: bool = False
    users: Sequence[str] = ()
    feeders: Sequence[str] = ()
    policies: Sequence[str] = ()

    @property
    def plain_type(self) -> str:
        """The type by which the plugin routes; empty if the exchange names none."""
        return str(self.definition.get("arguments", {}).get(PLAIN_TYPE, ""))

    @property
    def held_by_all(self) -> int | None:
        """How many messages the plugins of all nodes hold; None: unknown, as each node shows only its own messages."""
        return None if self.elsewhere else self.held

    @property
    def is_delayed(self) -> bool:
        return self.kind == DELAYED

    @property
    def is_plain(self) -> bool:
        return self.kind is not None and not self.is_delayed

    def as_kind(self, kind: str) -> dict[str, Any]:
        """Returns the exchange with the type `kind` and its bindings, as a definitions file for its virtual host."""
        return {
            "exchanges": [{**without_vhost(self.definition), "type": kind}],
            "bindings": [without_vhost(binding) for binding in self.bindings],
        }


@dataclass(frozen=True, kw_only=True)
class Facts:
    """The facts about one virtual host. `has_queue`: the ingress queue exists. `plugin_is_on` None: unknown, as a
    definitions file does not say it. `elsewhere`: other virtual hosts that have exchanges of the plugin's type."""

    vhost: str
    exchanges: Sequence[OldExchange]
    has_queue: bool
    plugin_is_on: bool | None = None
    elsewhere: Sequence[str] = field(default=())


def read(
    definitions: Mapping[str, Any],
    names: Names,
    vhost: str,
    *,
    wanted: Iterable[str] = (),
    may_miss: Collection[str] = (),
    held: Mapping[str, int | None] | None = None,
    other_nodes: Sequence[str] = (),
    plugin_is_on: bool | None = None,
) -> Facts:
    """Reads a RabbitMQ definitions export of all virtual hosts, or of `vhost` alone. `wanted`: names of exchanges;
    empty: all that are or were of the plugin's type. `may_miss`: wanted exchanges that may be missing. `other_nodes`:
    nodes that were not asked about messages in the plugin. `held`: by exchange, how many messages wait in the plugin,
    without those on `other_nodes`. `plugin_is_on`: whether the plugin is switched on; None: unknown.

    Raises:
        ValueError: `definitions` is no export, or a wanted exchange is missing in it.
    """
    rows = {kind: list(_rows(definitions, kind, vhost)) for kind in ("exchanges", "queues", "bindings", "policies")}
    old = {row["name"]: row for row in rows["exchanges"] if _is_old(row)}
    wanted = tuple(wanted)
    if missing := [name for name in wanted if name not in old and name not in may_miss]:
        raise ValueError(
            f"the virtual host {vhost} has no exchange {missing[0]!r} of type {DELAYED}, nor one that was of that type"
        )
    return Facts(
        vhost=vhost,
        exchanges=tuple(
            replace(
                _old_exchange(row, rows, names, _rows(definitions, "permissions", vhost), (held or {}).get(name)),
                elsewhere=other_nodes if row["type"] == DELAYED else (),
            )
            for name, row in sorted(old.items())
            if not wanted or name in wanted
        ),
        has_queue=any(row["name"] == names.ingress for row in rows["queues"]),
        plugin_is_on=plugin_is_on,
        elsewhere=sorted(
            {
                row["vhost"]
                for row in definitions["exchanges"]
                if row["type"] == DELAYED and row.get("vhost", vhost) != vhost
            }
        ),
    )


def without_vhost(definition: Definition) -> dict[str, Any]:
    return {name: value for name, value in definition.items() if name != "vhost"}


def bindings_of(name: str, bindings: Iterable[Definition]) -> tuple[Definition, ...]:
    """Returns the bindings that lead from or to the exchange `name`."""
    return tuple(
        binding
        for binding in bindings
        if binding["source"] == name or (binding["destination_type"], binding["destination"]) == ("exchange", name)
    )


def _rows(definitions: Mapping[str, Any], kind: str, vhost: str) -> Iterator[Definition]:
    rows = definitions.get(kind, [] if "exchanges" in definitions else None)
    if not isinstance(rows, list):
        raise ValueError(f"this is no definitions export of RabbitMQ: it has no list {kind!r}")  # noqa: TRY004
    return (row for row in rows if row.get("vhost", vhost) == vhost)


def _is_old(row: Definition) -> bool:
    return row["type"] == DELAYED or PLAIN_TYPE in row.get("arguments", {})


def _old_exchange(
    row: Definition,
    rows: Mapping[str, list[Definition]],
    names: Names,
    permissions: Iterable[Definition],
    held: int | None,
) -> OldExchange:
    name = row["name"]
    ingress = f"{names.ingress}.{name}"
    return OldExchange(
        name=name,
        kind=row["type"],
        definition=row,
        bindings=bindings_of(name, rows["bindings"]),
        held=held,
        has_ingress=any(other["name"] == ingress for other in rows["exchanges"])
        and any((one["source"], one["destination"]) == (ingress, names.ingress) for one in rows["bindings"]),
        users=sorted(
            one["user"] for one in permissions if _may(one["write"], name) and not _may(one["write"], ingress)
        ),
        feeders=tuple(_feeders(name, rows)),
        policies=tuple(
            f"{one['name']} ({', '.join(sorted(one['definition']))})"
            for one in rows["policies"]
            if one.get("apply-to", "all") in {"all", "exchanges"} and _may(one["pattern"], name)
        ),
    )


def _feeders(name: str, rows: Mapping[str, list[Definition]]) -> Iterator[str]:
    for binding in rows["bindings"]:
        if (binding["destination_type"], binding["destination"]) == ("exchange", name):
            yield f"the exchange {binding['source']}, by a binding"
    for row in rows["exchanges"]:
        if row.get("arguments", {}).get("alternate-exchange") == name:
            yield f"the exchange {row['name']}, as its alternate exchange"
    for row in rows["queues"]:
        if row.get("arguments", {}).get("x-dead-letter-exchange") == name:
            yield f"the queue {row['name']}, which dead-letters to it"
    for row in rows["policies"]:
        if name in {row["definition"].get("alternate-exchange"), row["definition"].get("dead-letter-exchange")}:
            yield f"the policy {row['name']}"


def _may(pattern: str, name: str) -> bool:
    """Returns whether the pattern of a permission or a policy matches the name. RabbitMQ's patterns are nearly Python's
    patterns. A pattern that Python can't parse counts as matching."""
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return True
