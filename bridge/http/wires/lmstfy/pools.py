"""Pools: each is a RabbitMQ and a Redis. A token without a pool's name belongs to the default one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.settings.pools import DEFAULT

if TYPE_CHECKING:
    from bridge.service import pools
    from bridge.service.service import Service


class Pools:
    def __init__(self, service: pools.Pools) -> None:
        self._service = service

    def of(self, name: str) -> Service | None:
        """The pool's service; the empty name is the default pool's."""
        return self._service.services.get(name or DEFAULT)

    def serving(self, name: str, topic: str) -> Service | None:
        """The service that has the topic for a token of the pool: the pool's own, but the default pool has no namespace
        that is routed to another one."""
        service = self.of(name)
        return self._service.serving(topic) if service is not None and (name or DEFAULT) == DEFAULT else service

    def names(self) -> list[str]:
        return sorted(self._service.services)


def parse_token(given: str) -> tuple[str, str]:
    """The pool and the token, of `[pool:]token`."""
    pool, colon, token = given.partition(":")
    return (pool or DEFAULT, token) if colon else (DEFAULT, given)
