"""Names RabbitMQ's refusals, with its codes and texts."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

_NAMES: Final = MappingProxyType(
    {
        320: "CONNECTION_FORCED",
        403: "ACCESS_REFUSED",
        404: "NOT_FOUND",
        405: "RESOURCE_LOCKED",
        406: "PRECONDITION_FAILED",
        501: "FRAME_ERROR",
        503: "COMMAND_INVALID",
        504: "CHANNEL_ERROR",
        505: "UNEXPECTED_FRAME",
        530: "NOT_ALLOWED",
        540: "NOT_IMPLEMENTED",
        541: "INTERNAL_ERROR",
    }
)
_SOFT: Final = frozenset((403, 404, 405, 406))
_MOST_BYTES: Final = 255


class Refusal(Exception):
    """RabbitMQ refuses a method: it closes the channel, or the connection if `hard`. `text`: as RabbitMQ sends it."""

    def __init__(self, code: int, text: str, *, hard: bool | None = None) -> None:
        self.code = code
        self.text = f"{_NAMES[code]} - {text}".encode()[:_MOST_BYTES].decode(errors="ignore")
        self.hard = code not in _SOFT if hard is None else hard
        super().__init__(self.text)


def not_modelled(what: str) -> Refusal:
    """Returns the refusal of something that RabbitMQ may have, and this simulation has not."""
    return Refusal(540, f"the simulated RabbitMQ does not model {what}", hard=True)


def no_queue(name: str) -> Refusal:
    return Refusal(404, f"no queue '{name}' in vhost '/'")


def no_exchange(name: str) -> Refusal:
    return Refusal(404, f"no exchange '{name}' in vhost '/'")


def failed(text: str) -> Refusal:
    """Returns the refusal of a request that does not fit the state of the broker."""
    return Refusal(406, text)
