"""Runs `delaybridge door`: a proxy in front of RabbitMQ for clients of the delayed-message plugin."""

from __future__ import annotations

import gc
import resource
import signal
import sys

import typer
import uvicorn

from bridge.cli.groups import App
from bridge.cli.listening import listen
from bridge.cli.logs import configure
from bridge.door.app import DoorApp
from bridge.door.brokers import Brokers, Node
from bridge.door.door import Door
from bridge.door.ingresses import Ingresses
from bridge.metrics import process  # noqa: F401 - its figures are on the page of metrics
from bridge.model.errors import WrongSettings
from bridge.model.tls import server_context
from bridge.settings.amqp_urls import amqp_nodes
from bridge.settings.reading import read
from bridge.settings.settings import Settings
from topology.names import Names

app = App()

_FILES_BESIDE = 64
_LONGEST_QUESTION_S = 5


@app.command()
def door() -> None:
    """Pass AMQP clients on to RabbitMQ, so that clients of the delayed-message plugin need no change.

    The door has the settings of the bridge. It connects to the RabbitMQ of BRIDGE_AMQP_URL, but not as the user in this
    URL: clients log in as their own users.
    """
    try:
        settings = read()
    except WrongSettings as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    configure(settings)
    most = _connections(settings)
    clients = listen(settings.door_host, settings.door_port, shared=settings.reuse_port)
    status = listen(settings.door_host, settings.door_status_port, shared=settings.reuse_port)
    served = DoorApp(_door(settings, most), [clients], drain_s=settings.drain / 1_000, grace_s=settings.grace / 1_000)
    gc.collect()
    gc.freeze()
    server = uvicorn.Server(
        uvicorn.Config(
            served,
            loop="uvloop",
            lifespan="on",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            limit_concurrency=64,
            timeout_keep_alive=_LONGEST_QUESTION_S,
            timeout_graceful_shutdown=_LONGEST_QUESTION_S,
        )
    )
    # After a clean shutdown uvicorn raises the signal that ended it once more.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.run(sockets=[status])
    raise typer.Exit(0 if server.started else 3)


def _door(settings: Settings, most: int) -> Door:
    nodes = [
        Node(host=host, port=port, tls=settings.tls if asks_for_tls else None)
        for host, port, asks_for_tls in amqp_nodes(settings.amqp_url)
    ]
    names = Names(prefix=settings.prefix, ready=settings.ready_prefix, dead=settings.dead_prefix)
    return Door(
        Brokers(nodes),
        ingress_of=Ingresses(names.ingress_of, own=names.prefix, plain=settings.door_plain or ()).of,
        most=most,
        tls=server_context(settings.door_cert, settings.door_key) if settings.door_cert else None,
    )


def _connections(settings: Settings) -> int:
    """Raises this process's limit of open files for the connections that the settings allow. Returns how many
    connections can be open at once. Each connection takes a file for the client and a file for the broker."""
    wanted = 2 * settings.door_max_connections + _FILES_BESIDE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return max(1, (allowed - _FILES_BESIDE) // 2)
