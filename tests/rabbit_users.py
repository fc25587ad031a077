"""Makes users of RabbitMQ by its management API, as rabbitmqctl takes a second of CPU to start."""

from __future__ import annotations

from urllib.parse import quote

import httpx2

from bridge.local.rabbitmq import RabbitNode


def carry_out(rabbit: RabbitNode, vhost: str, *command: str) -> None:
    """Does what `rabbitmqctl` does with these arguments, such as `add_user billing SECRET`. Permissions are those on
    the virtual host.

    Raises:
        ValueError: the command is unknown here, or has too few or too many arguments.
    """
    match command:
        case "add_user", user, password:
            add_user(rabbit, user, password)
        case "set_permissions", user, configure, write, read:
            rights = {"configure": configure, "write": write, "read": read}
            _call(rabbit, "PUT", ("permissions", vhost, user), rights)
        case "set_topic_permissions", user, exchange, write, read:
            rights = {"exchange": exchange, "write": write, "read": read}
            _call(rabbit, "PUT", ("topic-permissions", vhost, user), rights)
        case _:
            raise ValueError(f"not a command about users: {' '.join(command)}")


def add_user(rabbit: RabbitNode, user: str, password: str, *, tags: str = "") -> None:
    """Makes a user without permissions."""
    _call(rabbit, "PUT", ("users", user), {"password": password, "tags": tags})


def delete_user(rabbit: RabbitNode, user: str) -> None:
    """Deletes a user and its permissions."""
    _call(rabbit, "DELETE", ("users", user))


def _call(rabbit: RabbitNode, method: str, path: tuple[str, ...], body: object = None) -> None:
    address = f"{rabbit.management_url}/api/" + "/".join(quote(part, safe="") for part in path)
    with httpx2.Client(timeout=60) as management:
        management.request(method, address, json=body).raise_for_status()
