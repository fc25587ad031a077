"""Says which exchange takes the delayed messages of another. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from bridge.door.methods import BadFrame

_REMEMBERED: Final = 1_024
_OF_BROKER: Final = "amq."  # RabbitMQ reserves these names, so the plugin delays none of them


class Ingresses:
    """The ingress of each exchange. Nobody asks the broker for it. Where it is missing, RabbitMQ refuses the publish
    and closes the channel (404), so no message goes without its delay.

    `ingress_of` names it. `own` begins the names of the bridge's own exchanges, and `plain` are exchanges without a
    delay: their publishes stay as they are, and so do those to the default exchange.
    """

    def __init__(self, ingress_of: Callable[[str], str], *, own: str, plain: Collection[str] = ()) -> None:
        self._ingress_of = ingress_of
        self._own = own
        self._plain = frozenset(plain)
        self._known: dict[bytes, bytes | None] = {}

    def of(self, exchange: bytes) -> bytes | None:
        """The name of the ingress; None: publishes to this exchange stay as they are.

        Raises:
            BadFrame: no exchange can have the name, so a publish can't be delayed.
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
            return None  # RabbitMQ refuses it
        if not name or name == self._own or name.startswith((f"{self._own}.", _OF_BROKER)) or name in self._plain:
            return None
        try:
            return self._ingress_of(name).encode()
        except ValueError as error:
            raise BadFrame(str(error)) from None
