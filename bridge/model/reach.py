"""Defines which topics a caller may use. The limit also holds for work of the caller that goes on after the call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from bridge.model.fast_dataclass import fast_dataclass


@fast_dataclass(frozen=True, kw_only=True, slots=True)
class Reach:
    """The topics that a caller may use. `namespaces`: all topics of these namespaces. `bare_topics`: all topics without
    a namespace."""

    every_topic: bool = False
    namespaces: tuple[str, ...] = ()
    bare_topics: bool = False

    def has(self, topic: str) -> bool:
        """Whether the topic may be used."""
        if self.every_topic:
            return True
        namespace, slash, _ = topic.partition("/")
        return namespace in self.namespaces if slash else self.bare_topics

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of_json(cls, parts: Mapping[str, Any]) -> Reach:
        """Reads the value that `to_json` returned."""
        return cls(
            every_topic=parts["every_topic"], namespaces=tuple(parts["namespaces"]), bare_topics=parts["bare_topics"]
        )


EVERYWHERE: Final = Reach(every_topic=True)
