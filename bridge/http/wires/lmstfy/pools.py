"""Pools: each is a RabbitMQ and a Redis. There is one, which a token without a pool's name belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bridge.service.service import Service

DEFAULT: Final = "default"


class Pools:
    def __init__(self, service: Service) -> None:
        self._services = {DEFAULT: service}

    def of(self, name: str) -> Service | None:
        """The pool's service; the empty name is the default pool's."""
        return self._services.get(name or DEFAULT)

    def names(self) -> list[str]:
        return sorted(self._services)


def parse_token(given: str) -> tuple[str, str]:
    """The pool and the token, of `[pool:]token`."""
    pool, colon, token = given.partition(":")
    return (pool or DEFAULT, token) if colon else (DEFAULT, given)
