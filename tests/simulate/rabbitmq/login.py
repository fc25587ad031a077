"""Logs clients in."""

from __future__ import annotations

from typing import Final

from pamqp.commands import Connection
from pamqp.common import FieldTable

from tests.simulate.rabbitmq.errors import Refusal
from tests.simulate.rabbitmq.versions import Rules

_USER: Final = "guest"
_CAPABILITIES: Final = (
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
)


def server_properties(rules: Rules) -> FieldTable:
    """Returns what the broker says about itself."""
    return {
        "capabilities": dict.fromkeys(_CAPABILITIES, True),
        "cluster_name": "rabbit@simulated",
        "product": "RabbitMQ",
        "version": rules.number,
    }


def check_login(method: Connection.StartOk) -> str:
    """Returns the user's name.

    Raises:
        Refusal: the user or the password is wrong.
    """
    if method.mechanism != "PLAIN" or method.response != f"\0{_USER}\0{_USER}":
        raise Refusal(
            403,
            f"Login was refused using authentication mechanism {method.mechanism}. For details see the broker logfile.",
            hard=True,
        )
    return _USER
