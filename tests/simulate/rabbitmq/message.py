"""Holds messages, and their entries in queues."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.simulate.rabbitmq.errors import failed, not_modelled
from tests.simulate.rabbitmq.tables import Properties, Table

PERSISTENT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How often a message left a queue for one reason. `time_s`: when it did so first, in Unix seconds."""

    queue: str
    reason: str
    exchange: str
    keys: tuple[str, ...]
    count: int
    time_s: int
    expiration: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """A message as it was routed. `keys`: its routing key, then those of its headers CC and BCC. `deaths`: the latest
    first; None: no broker has written any. `failed`: the failed deliveries that a dead letter shows."""

    exchange: str
    keys: tuple[str, ...]
    properties: Properties
    body: bytes
    deaths: tuple[Death, ...] | None = None
    failed: int = 0

    @property
    def is_persistent(self) -> bool:
        return self.properties.octet("delivery_mode") == PERSISTENT

    @property
    def expiration_ms(self) -> int | None:
        """The message's own time to live."""
        expiration = self.properties.short("expiration")
        return None if expiration is None else int(expiration)


@dataclass(slots=True, kw_only=True, eq=False)
class Entry:
    """A message in one queue.

    `order`: the place at which it came. `expires_ms`: the moment from which its queue may drop it; None: never.
    `failed`: deliveries that count towards the limit. `acquired`: deliveries that have ended without an ack.
    """

    message: Message
    order: int
    level: int = 0
    expires_ms: float | None = None
    failed: int = 0
    acquired: int = 0


def published(exchange: str, routing_key: str, properties: Properties, body: bytes, *, user: str) -> Message:
    """Returns the message of a publish.

    Raises:
        Refusal: RabbitMQ does not take the message.
    """
    expiration = properties.short("expiration")
    if expiration is not None and not (expiration.isascii() and expiration.isdecimal()):
        raise failed(f"invalid expiration '{expiration}': {{leftover_string,<<\"{expiration}\">>}}")
    user_id = properties.short("user_id")
    if user_id is not None and user_id != user:
        raise failed(f"user_id property set to '{user_id}' but authenticated user was '{user}'")
    keys = (routing_key, *_further_keys(properties.headers, "CC"), *_further_keys(properties.headers, "BCC"))
    if "BCC" in properties.headers.entries:
        properties = properties.with_headers({"BCC": None})
    return Message(exchange=exchange, keys=keys, properties=properties, body=body)


def cc_keys(headers: Table) -> tuple[str, ...]:
    """Returns the keys of the header CC."""
    return _further_keys(headers, "CC")


def _further_keys(headers: Table, name: str) -> tuple[str, ...]:
    keys = headers.value(name)
    if keys is None:
        return ()
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
        raise not_modelled(f"a header {name} that is no list of texts")
    return tuple(keys)
