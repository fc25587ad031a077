"""Holds the properties of an AMQP message as plain values, so that only `broker/client` uses the AMQP library. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from bridge.model.fast_dataclass import fast_dataclass
from topology import deaths as topology_deaths
from topology.deaths import Death

UNREADABLE: Final = "x-delay-unreadable"
"""The header that says why the properties of a delivery could not be read.

A client may forge this header. Then the bridge only puts the client's message aside.
"""


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """All properties that AMQP 0.9.1 knows; None for one that is absent. `timestamp_ms` is in Unix ms.

    `written`: by name, the encoded bytes (type included) of headers whose Python values do not show the AMQP type.
    """

    content_type: str | None = None
    content_encoding: str | None = None
    headers: dict[str, Any] | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration: str | None = None
    message_id: str | None = None
    timestamp_ms: int | None = None
    message_type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None
    written: Mapping[str, bytes] | None = None


class Message(Protocol):
    """A message as it was delivered. `delivery_tag`: the number with which the channel of the delivery acknowledges the
    message. `exchange`: the exchange to which it was published, or through which it was dead-lettered. `redelivered`:
    RabbitMQ has delivered it before."""

    @property
    def delivery_tag(self) -> int: ...

    @property
    def exchange(self) -> str: ...

    @property
    def redelivered(self) -> bool: ...

    @property
    def routing_key(self) -> str: ...

    @property
    def properties(self) -> Properties: ...

    @property
    def body(self) -> bytes: ...


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class MadeMessage:
    """A message that the bridge itself makes, to put unreadable bytes aside."""

    properties: Properties
    body: bytes
    delivery_tag: int = 0
    exchange: str = ""
    routing_key: str = ""
    redelivered: bool = False


class UnreadDeaths:
    """The value of `x-death`, not decoded yet. `x-death` is most of a delivery's headers, and few deliveries need
    it."""

    __slots__ = ()

    def read(self) -> object:
        """Returns the whole value of `x-death`, decoded.

        Raises:
            ValueError: the bytes can't be read.
        """
        raise NotImplementedError

    def latest(self) -> tuple[str, str] | None:
        """Returns queue and reason of the latest dead-lettering. None: only `read` can find them."""
        raise NotImplementedError


def latest_death(headers: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Returns the queue that dead-lettered a message last, and the reason. None: no queue has dead-lettered it.

    Raises:
        ValueError: `x-death` can't be read.
    """
    died = (headers or {}).get("x-death")
    if not isinstance(died, UnreadDeaths):
        return topology_deaths.latest_death(headers)
    return died.latest() or topology_deaths.latest_death({"x-death": died.read()})


def deaths(headers: Mapping[str, Any] | None) -> list[Death]:
    """Returns all entries of a message's `x-death`, the latest first.

    Raises:
        ValueError: `x-death` can't be read.
    """
    died = (headers or {}).get("x-death")
    return topology_deaths.deaths({"x-death": died.read()} if isinstance(died, UnreadDeaths) else headers)
