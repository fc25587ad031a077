"""Checks the arguments of queues, and reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tests.simulate.rabbitmq.errors import failed, not_modelled
from tests.simulate.rabbitmq.tables import Table, type_name
from tests.simulate.rabbitmq.versions import Rules

LONGEST_TTL_MS: Final = 315_360_000_000
_TEXTS: Final = frozenset(
    ("x-queue-type", "x-dead-letter-exchange", "x-dead-letter-routing-key", "x-dead-letter-strategy", "x-overflow")
)
_NUMBERS: Final = frozenset(("x-message-ttl", "x-max-length", "x-max-length-bytes", "x-delivery-limit", "x-expires"))
_KNOWN: Final = _TEXTS | _NUMBERS | {"x-single-active-consumer"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the arguments of a queue ask for. `delivery_limit` None: there is none."""

    quorum: bool
    ttl_ms: int | None
    expires_ms: int | None
    dead_letter_exchange: str | None
    dead_letter_key: str | None
    at_least_once: bool
    rejects: bool
    most: int | None
    most_bytes: int | None
    delivery_limit: int | None
    single_active: bool


def read(name: str, arguments: Table, rules: Rules) -> Settings:
    """Reads the arguments of the queue `name`.

    Raises:
        Refusal: RabbitMQ refuses an argument, or this simulation does not model it.
    """
    for argument, value in arguments.read().items():
        if argument not in _KNOWN:
            raise not_modelled(f"the queue argument {argument}")
        if argument in _NUMBERS and not _is_number(value):
            raise _invalid(argument, name, f"{{unacceptable_type,{type_name(arguments.entries[argument])}}}")
        if argument in _NUMBERS and value < 0 and argument != "x-delivery-limit":
            raise _invalid(argument, name, f"{{value_negative,{value}}}")
    ttl_ms = arguments.value("x-message-ttl")
    if ttl_ms is not None and ttl_ms > LONGEST_TTL_MS:
        raise _invalid("x-message-ttl", name, f"{{value_too_big,{ttl_ms}}}")
    kind, overflow = arguments.value("x-queue-type") or "classic", arguments.value("x-overflow") or "drop-head"
    if kind not in ("classic", "quorum") or overflow not in ("drop-head", "reject-publish"):
        raise not_modelled(f"a queue of the type {kind} with the overflow {overflow}")
    quorum, exchange = kind == "quorum", arguments.value("x-dead-letter-exchange")
    limit = arguments.value("x-delivery-limit")
    if limit is None:
        limit = rules.delivery_limit
    elif limit == -1 and rules.unlimited:
        limit = None
    return Settings(
        quorum=quorum,
        ttl_ms=ttl_ms,
        expires_ms=arguments.value("x-expires"),
        dead_letter_exchange=exchange,
        dead_letter_key=arguments.value("x-dead-letter-routing-key"),
        at_least_once=quorum
        and exchange is not None
        and overflow == "reject-publish"
        and arguments.value("x-dead-letter-strategy") == "at-least-once",
        rejects=overflow == "reject-publish",
        most=arguments.value("x-max-length"),
        most_bytes=arguments.value("x-max-length-bytes"),
        delivery_limit=limit if quorum else None,
        single_active=bool(arguments.value("x-single-active-consumer")),
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _invalid(argument: str, queue: str, why: str) -> Exception:
    return failed(f"invalid arg '{argument}' for queue '{queue}' in vhost '/': {why}")


def assert_equivalent(kind: str, name: str, found: Table, given: Table) -> None:
    """Compares the arguments of an existing object with those of another declare.

    Raises:
        Refusal: they differ.
    """
    for argument in sorted({*found.entries, *given.entries}):
        former, latter = found.value(argument), given.value(argument)
        if former != latter and type(former) is type(latter):
            assert_same(kind, name, argument, found=former, given=latter)
        if former != latter:
            raise failed(
                f"inequivalent arg '{argument}' for {kind} '{name}' in vhost '/': received {_shown(given, argument)} "
                f"but current is {_shown(found, argument)}"
            )


def assert_same(kind: str, name: str, property_name: str, *, found: object, given: object) -> None:
    """Compares one property. Raises Refusal: it differs."""
    if found != given:
        raise failed(
            f"inequivalent arg '{property_name}' for {kind} '{name}' in vhost '/': "
            f"received '{_erlang(given)}' but current is '{_erlang(found)}'"
        )


def _erlang(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _shown(arguments: Table, name: str) -> str:
    encoded = arguments.entries.get(name)
    if encoded is None:
        return "none"
    return f"the value '{_erlang(arguments.value(name))}' of type '{type_name(encoded)}'"
