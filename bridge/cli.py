"""The command line: `delaybridge serve`, `dev`, `topology …`, `token …`, `audit`, `bench`, `torture`."""

from __future__ import annotations

import gc
import resource
import signal
import socket
import sys

import typer
import uvicorn
from pydantic import ValidationError

from bridge.access.access import Undecided
from bridge.assembly import assemble
from bridge.cli_audit import audit
from bridge.cli_bench import bench
from bridge.cli_token import app as token_app
from bridge.cli_topology import app as topology_app
from bridge.cli_torture import torture
from bridge.http.app import create_app
from bridge.http.front_door import front_door
from bridge.http.server import Server
from bridge.http.sweep import Limits
from bridge.local.errors import LocalError
from bridge.local.stack import StackSettings, run
from bridge.logs import configure
from bridge.settings import Settings, complaints

_OTHER_FILES = 256

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,  # they show variables, and passwords are in some
    help="Messages delivered later, on RabbitMQ.",
)
app.add_typer(topology_app, name="topology", help="What stands on the broker.")
app.add_typer(token_app, name="token", help="Who may do what over HTTP.")
app.command()(audit)
app.command()(bench)
app.command()(torture)


@app.command()
def serve() -> None:
    """Run one bridge process; settings come from the environment (BRIDGE_…)."""
    try:
        settings = Settings()
    except ValidationError as error:
        print(*complaints(error), sep="\n", file=sys.stderr)
        raise typer.Exit(2) from None
    configure(settings)
    _collect_rarely()
    try:
        service = assemble(settings)
        application = create_app(service)
    except Undecided as error:
        print(f"delaybridge: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    config = uvicorn.Config(
        application,
        loop="uvloop",
        http=front_door(_limits(settings)),
        ws="none",
        timeout_keep_alive=settings.keep_alive // 1_000,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing asks from where a request came, and each would be looked at
        ssl_certfile=settings.http_cert,
        ssl_keyfile=settings.http_key,
        timeout_graceful_shutdown=settings.grace // 1_000,
        backlog=2_048,
    )
    server = Server(config, service, drain_ms=settings.drain)
    # Once it has ended in good order, uvicorn raises the signal that it was told to end with again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.run(sockets=[_listen(host, port, shared=settings.reuse_port) for host, port in _addresses(settings)])
    if not server.started:
        raise typer.Exit(3)


@app.command()
def dev() -> None:
    """Run RabbitMQ, Redis and the bridge on this machine until Ctrl-C, as `make run` does."""
    try:
        run(StackSettings.from_environment())
    except LocalError as error:
        print(f"delaybridge: {error}", file=sys.stderr)
        raise typer.Exit(1) from None


def _collect_rarely() -> None:
    # What is loaded by now lives for ever, and requests make next to no cycles. The default has the collector walk all
    # of it again and again: 2,700 sends a second instead of 2,300, and a 99th percentile of 38 ms instead of 88.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _limits(settings: Settings) -> Limits:
    # Each connection is an open file, and the process has to have some left for its servers.
    wanted = settings.max_connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    return Limits(
        connections=max(1, allowed - _OTHER_FILES),
        head_bytes=settings.max_head,
        client_timeout_s=settings.client_timeout / 1_000,
        keep_alive_s=settings.keep_alive / 1_000,
    )


def _addresses(settings: Settings) -> list[tuple[str, int]]:
    """Where it listens. All ports are one server's, which knows a request's by the port it came in at."""
    addresses = [(settings.http_host, settings.http_port)]
    if settings.lmstfy and settings.lmstfy_port is not None:
        addresses.append((settings.http_host, settings.lmstfy_port))
    if settings.lmstfy and settings.lmstfy_admin_port is not None:
        addresses.append((settings.lmstfy_admin_host, settings.lmstfy_admin_port))
    return addresses


def _listen(host: str, port: int, *, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        # Several processes share the port, and the kernel spreads connections over them.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        print(f"can't listen on {host}:{port}: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    listening.set_inheritable(True)
    return listening
