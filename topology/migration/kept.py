"""Keeps in a file the definitions of exchanges that are being replaced, so that an interrupted command can continue."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from topology.errors import TopologyError
from topology.migration.facts import OldExchange
from topology.migration.steps import Unsettled

_VERSION: Final = 1


class FileUnreadable(TopologyError):
    """The file is not a file of a migration, or can't be read or written."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The entry of a migration's file for one virtual host.

    `begun`: replacements that may be unfinished, by exchange name; the exchange may be missing now. `held`: by exchange
    name, how many messages the plugin held when the exchange was replaced; None: unknown. `paused`: exchanges whose
    topics a command has paused, and must resume.
    """

    begun: Mapping[str, Unsettled]
    held: Mapping[str, int | None]
    paused: Sequence[str] = ()


class KeptFile:
    """The file of a migration, with one entry for each virtual host. Each method raises FileUnreadable if the file
    can't be read or written."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, vhost: str) -> Kept:
        """Returns the entry of the virtual host; an empty one if there is no file."""
        entry = self._all().get(vhost, {})
        try:
            begun = {
                name: Unsettled(
                    exchange=OldExchange(
                        name=name,
                        kind=None,
                        definition=one["exchange"],
                        bindings=tuple(one["bindings"]),
                        held=one.get("held"),
                        has_ingress=one["has_ingress"],
                    ),
                    towards=one["towards"],
                )
                for name, one in entry.get("begun", {}).items()
            }
            return Kept(begun=begun, held=dict(entry.get("held", {})), paused=tuple(entry.get("paused", ())))
        except (KeyError, TypeError, AttributeError) as error:
            raise FileUnreadable(f"{self.path} is no file of a migration: {error!r}") from error

    def begin(self, vhost: str, exchange: OldExchange, towards: str) -> None:
        """Writes an exchange to the file, before the migration deletes it. `towards`: the type that the exchange gets.
        The file is on the disk when this method returns."""
        kept = self.read(vhost)
        begun = {**kept.begun, exchange.name: Unsettled(exchange=exchange, towards=towards)}
        self._write(vhost, replace(kept, begun=begun))

    def end(self, vhost: str, name: str, held: int | None = 0) -> None:
        """Writes to the file that the exchange exists again. `held`: how many messages the plugin held for the exchange
        when it was replaced; None: unknown."""
        kept = self.read(vhost)
        begun = {other: one for other, one in kept.begun.items() if other != name}
        counts = {other: count for other, count in kept.held.items() if other != name}
        self._write(vhost, replace(kept, begun=begun, held=counts if held == 0 else {**counts, name: held}))

    def pause(self, vhost: str, name: str) -> None:
        """Writes to the file that the exchange's topic is paused, before the migration pauses it."""
        kept = self.read(vhost)
        self._write(vhost, replace(kept, paused=(*kept.paused, name)))

    def resume(self, vhost: str, name: str) -> None:
        """Writes to the file that the exchange's topic is resumed."""
        kept = self.read(vhost)
        self._write(vhost, replace(kept, paused=[one for one in kept.paused if one != name]))

    def _all(self) -> dict[str, Any]:
        try:
            found = json.loads(self.path.read_text())
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise FileUnreadable(f"{self.path} can't be read: {error}") from error
        if not isinstance(found, dict) or found.get("version") != _VERSION or not isinstance(found.get("vhosts"), dict):
            raise FileUnreadable(f"{self.path} is no file of a migration of version {_VERSION}")
        return dict(found["vhosts"])

    def _write(self, vhost: str, kept: Kept) -> None:
        entry = {
            "begun": {
                name: {
                    "towards": one.towards,
                    "has_ingress": one.exchange.has_ingress,
                    "held": one.exchange.held,
                    "exchange": dict(one.exchange.definition),
                    "bindings": [dict(binding) for binding in one.exchange.bindings],
                }
                for name, one in kept.begun.items()
            },
            "held": dict(kept.held),
            "paused": list(kept.paused),
        }
        vhosts = {name: one for name, one in self._all().items() if name != vhost}
        if any(entry.values()):
            vhosts[vhost] = entry
        try:
            self._replace(json.dumps({"version": _VERSION, "vhosts": vhosts}, indent=2) + "\n")
        except OSError as error:
            raise FileUnreadable(f"{self.path} can't be written: {error}") from error

    def _replace(self, text: str) -> None:
        draft = self.path.with_name(f"{self.path.name}.draft")
        with draft.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)
        folder = os.open(self.path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
