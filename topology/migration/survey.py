"""Asks RabbitMQ's management API for the facts of a migration."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import httpx2

from topology.management import Management, quoted
from topology.migration.facts import DELAYED, Definition, Facts, bindings_of, read
from topology.names import Names

_KINDS: Final = ("exchanges", "queues", "bindings", "policies")


async def survey(
    management: Management, names: Names, vhost: str, wanted: Collection[str] = (), may_miss: Collection[str] = ()
) -> Facts:
    """Returns the facts of a virtual host. Changes nothing. `wanted`: names of exchanges; empty: all that are or were
    of the plugin's type. `may_miss`: wanted exchanges that may be missing.

    Raises:
        ValueError: the virtual host or a wanted exchange does not exist.
        httpx2.HTTPError: RabbitMQ refused a question, or did not answer.
    """
    place = quoted(vhost)
    try:
        definitions: dict[str, Any] = {kind: await management.get(f"{kind}/{place}") for kind in _KINDS}
    except httpx2.HTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            raise ValueError(f"RabbitMQ at {management.where} has no virtual host {vhost!r}") from None
        raise
    definitions["permissions"] = await _permissions(management, place)
    held = {
        row["name"]: await held_by_plugin(management, vhost, row["name"])
        for row in definitions["exchanges"]
        if row["type"] == DELAYED
    }
    # The exchanges of all virtual hosts, as another virtual host may need the plugin too.
    definitions["exchanges"] = [_definition(row) for row in await management.get("exchanges")]
    definitions["bindings"] = [_binding(row) for row in definitions["bindings"]]
    overview = await management.get("overview")
    return read(
        definitions,
        names,
        vhost,
        wanted=wanted,
        may_miss=may_miss,
        held=held,
        other_nodes=[name for name in await _nodes(management) if name != overview["node"]],
        plugin_is_on=any(one["name"] == DELAYED for one in overview["exchange_types"]),
    )


async def _nodes(management: Management) -> list[str]:
    """Returns the nodes of the cluster, with the nodes that are down; none if the API's user may not see them."""
    try:
        return sorted(str(row["name"]) for row in await management.get("nodes?columns=name"))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return []
        raise


async def exchange_of(management: Management, vhost: str, name: str) -> Mapping[str, Any] | None:
    """Returns the definition of an exchange; None: the exchange does not exist."""
    try:
        return _definition(await management.get(f"exchanges/{quoted(vhost)}/{quoted(name)}"))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code == HTTPStatus.NOT_FOUND:
            return None
        raise


async def bindings_now(management: Management, vhost: str, name: str) -> Sequence[Definition]:
    """Returns the bindings from and to the exchange, in the form of a definitions export."""
    return bindings_of(name, map(_binding, await management.get(f"bindings/{quoted(vhost)}")))


async def held_by_plugin(management: Management, vhost: str, name: str) -> int | None:
    """Returns how many messages wait in the plugin for an exchange; None: RabbitMQ does not show the number."""
    found = await management.get(f"exchanges/{quoted(vhost)}/{quoted(name)}")
    held = found.get("messages_delayed")
    return held if isinstance(held, int) else None


async def _permissions(management: Management, place: str) -> list[Mapping[str, Any]]:
    """Returns the permissions of all users; none if the API's user may not see them."""
    try:
        return list(await management.get(f"vhosts/{place}/permissions"))
    except httpx2.HTTPStatusError as error:
        if error.response.status_code in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            return []
        raise


def _definition(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the part of an exchange's description that a definitions export has."""
    members = ("name", "vhost", "type", "durable", "auto_delete", "internal", "arguments")
    return {member: row[member] for member in members}


def _binding(row: Mapping[str, Any]) -> dict[str, Any]:
    members = ("source", "vhost", "destination", "destination_type", "routing_key", "arguments")
    return {member: row[member] for member in members}
