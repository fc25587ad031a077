"""Finds the ingress of an exchange: the exchange that takes its delayed messages. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from bridge.door.methods import BadFrame

_REMEMBERED: Final = 1_024
_OF_BROKER: Final = "amq."  # RabbitMQ reserves these names, so the plugin delays none of them


class Ingresses:
    """Names the ingress of each exchange. The door does not ask the broker whether the ingress exists. If it is
    missing, RabbitMQ refuses the publish and closes the channel (404), so no message loses its delay.

    `ingress_of`: returns the name of the ingress for the name of an exchange. `own`: prefix of the bridge's own
    exchanges. `plain`: exchanges whose messages are never delayed. Publishes to own, plain and `amq.*` exchanges, and
    to the default exchange, stay as they are.
    """

    def __init__(self, ingress_of: Callable[[str], str], *, own: str, plain: Collection[str] = ()) -> None:
        self._ingress_of = ingress_of
        self._own = own
        self._plain = frozenset(plain)
        self._known: dict[bytes, bytes | None] = {}

    def of(self, exchange: bytes) -> bytes | None:
        """Returns the name of the exchange's ingress; None: publishes to this exchange stay as they are.

        Raises:
            BadFrame: the ingress's name would be too long for an exchange, so the publish can't be delayed.
        """
        if exchange not in self._known:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            self._known[exchange] = self._find(exchange)
        return self._known[exchange]

    def _find(self, exchange: bytes) -> bytes | None:
        try:
            name = exchange.decode()
        except UnicodeDecodeError:
            return None  # RabbitMQ refuses the publish
        if not name or name == self._own or name.startswith((f"{self._own}.", _OF_BROKER)) or name in self._plain:
            return None
        try:
            return self._ingress_of(name).encode()
        except ValueError as error:
            raise BadFrame(str(error)) from None
