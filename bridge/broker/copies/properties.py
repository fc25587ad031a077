"""Holds the properties of an AMQP message as plain values, so that only `client` knows the AMQP library. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from bridge.model.fast_dataclass import fast_dataclass
from topology import deaths as topology_deaths
from topology.deaths import Death

UNREADABLE: Final = "x-delay-unreadable"
"""The header that says why the properties of a delivery could not be read.

A client may forge it. All it gets is that the bridge puts the client's own message aside.
"""


@fast_dataclass(frozen=True, slots=True, kw_only=True)
class Properties:
    """All properties that AMQP 0.9.1 knows; None for one that is absent. `timestamp_ms` is in Unix ms.

    `written`: the bytes, type included, of those headers whose values do not tell their AMQP type.
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
    """A message as it was delivered. `delivery_tag` is the number by which its channel acknowledges it. `exchange`: the
    one it was published to, or by which it was dead-lettered. `redelivered`: RabbitMQ has delivered it before."""

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


@dataclass(frozen=True, slots=True)
class WrittenValue:
    """The value of a header as AMQP has it: a byte for its type, and the value."""

    raw: bytes


class UnreadDeaths:
    """The value of `x-death` as bytes. It is most of a delivery's headers, and few deliveries need it."""

    __slots__ = ()

    def read(self) -> object:
        """Returns the whole value.

        Raises:
            ValueError: the bytes can't be read.
        """
        raise NotImplementedError

    def latest(self) -> tuple[str, str] | None:
        """Returns queue and reason of the latest death. None: only `read` can tell."""
        raise NotImplementedError


def latest_death(headers: Mapping[str, Any] | None) -> tuple[str, str] | None:
    """Returns the queue that a message left last, and why. None: it has left none.

    Raises:
        ValueError: the deaths can't be read.
    """
    died = (headers or {}).get("x-death")
    if not isinstance(died, UnreadDeaths):
        return topology_deaths.latest_death(headers)
    return died.latest() or topology_deaths.latest_death({"x-death": died.read()})


def deaths(headers: Mapping[str, Any] | None) -> list[Death]:
    """Returns all deaths of a message, the latest first.

    Raises:
        ValueError: the deaths can't be read.
    """
    died = (headers or {}).get("x-death")
    return topology_deaths.deaths({"x-death": died.read()} if isinstance(died, UnreadDeaths) else headers)
