"""Runs `delaybridge serve`: one bridge process, or several worker processes on the same ports."""

from __future__ import annotations

import gc
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterable, Sequence

import structlog
import typer
import uvicorn

from bridge.access.access import Undecided, asks_for_tokens
from bridge.cli.assembly import assemble
from bridge.cli.declared_schedules import declared_schedules
from bridge.cli.groups import App
from bridge.cli.joined_notices import JoinedNotices
from bridge.cli.listening import Files, addresses_of, listen
from bridge.cli.logs import configure
from bridge.cli.workers import Workers
from bridge.http.app import served_app
from bridge.http.server.protocol import limited_protocol
from bridge.http.server.pulse import Pulse
from bridge.http.server.server import DrainingServer
from bridge.http.server.sweep import Limits
from bridge.model.errors import WrongSettings
from bridge.service.pools.worker_rpc import WorkerRpc
from bridge.service.systemd import Notices, Reporter
from bridge.settings.reading import read
from bridge.settings.roles import Process, Role, processes
from bridge.settings.settings import Settings
from bridge.tracing.start import start as start_tracing

app = App()

_BEYOND_GRACE_S = 5.0


@app.command()
def serve() -> None:
    """Run a bridge in BRIDGE_WORKERS processes.

    The settings come from a file and from environment variables (BRIDGE_…); `config show` lists them.
    """
    try:
        settings = read()
        declared_schedules(settings)  # a wrong file ends the command here, before it starts processes
    except WrongSettings as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    configure(settings)
    structlog.configure(cache_logger_on_first_use=True)
    try:
        asks_for_tokens(settings)
    except Undecided as error:
        print(f"delaybridge: {error}", file=sys.stderr)
        raise typer.Exit(2) from None
    _collect_rarely()
    if settings.workers == 1:
        sockets = [listen(host, port, shared=settings.reuse_port) for host, port in addresses_of(settings)]
        code = _run(settings, sockets, WorkerRpc(), Notices.from_environment())
    else:
        code = _run_workers(settings)
    raise typer.Exit(code)


def _run(
    settings: Settings,
    sockets: list[socket.socket],
    worker_rpc: WorkerRpc,
    notices: Notices | None,
    lifeline: int | None = None,
) -> int:
    """Serves until a signal ends the process. Returns the exit code. `notices`: sends this process's notices to
    systemd; None: there is no systemd. `lifeline`: the read end of a pipe; the process ends when the parent's write end
    closes; None: no parent."""
    tracing = start_tracing(os.environ, worker_rpc.name)
    pools = assemble(settings, worker_rpc, tracing)
    pulse = Pulse(settings.answer_within_s)
    config = uvicorn.Config(
        served_app(pools),
        loop="uvloop",
        http=limited_protocol(_limits(settings), pulse),
        ws="none",
        timeout_keep_alive=settings.keep_alive // 1_000,
        log_config=None,
        access_log=False,
        proxy_headers=False,  # nothing uses the client's address, and the middleware would cost CPU for each request
        ssl_certfile=settings.http_cert,
        ssl_keyfile=settings.http_key,
        timeout_graceful_shutdown=settings.grace // 1_000,
        backlog=2_048,
    )
    reporter = Reporter(pools, notices) if notices else None
    server = DrainingServer(config, pools, pulse, drain_ms=settings.drain, lifeline=lifeline, reporter=reporter)
    # After a clean shutdown uvicorn raises the signal that ended it once more.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        server.run(sockets=sockets)
    finally:
        if tracing is not None:
            tracing.close()
    return 0 if server.started else 3


def _run_workers(settings: Settings) -> int:
    workers = processes(settings.workers, settings.roles)
    names = [worker.name for worker in workers]
    worker_rpcs = WorkerRpc.of(names)
    sockets = _listen_per_worker(settings, workers)
    notices = Notices.from_environment()
    joined = JoinedNotices(names, notices) if notices else None

    def work(index: int, lifeline: int) -> int:
        _close(own for other, own in enumerate(sockets) if other != index)
        worker = workers[index]
        structlog.contextvars.bind_contextvars(process=worker.name)
        own = settings.model_copy(update={"roles": worker.roles})
        return _run(own, sockets[index], worker_rpcs[index], joined.of(index) if joined else None, lifeline)

    def ending() -> None:
        # With an open socket here, the kernel would still accept clients after all workers have closed theirs.
        _close(sockets)

    within_s = (settings.drain + 2 * settings.grace) / 1_000 + _BEYOND_GRACE_S
    return Workers(names, work, ending, within_s=within_s, notices=joined).run()


def _collect_rarely() -> None:
    # All objects so far live for ever, and requests make almost no reference cycles. The default thresholds make the
    # collector walk all objects again and again. Measured: 2,700 sends a second instead of 2,300, and a 99th percentile
    # of 38 ms instead of 88.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 50, 100)


def _limits(settings: Settings) -> Limits:
    files = Files.of(settings, resource.getrlimit(resource.RLIMIT_NOFILE))
    if files.to_raise:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files.allowed, files.hard))
    return Limits(
        connections=files.connections,
        unread_bytes=settings.max_buffered,
        head_bytes=settings.max_head,
        client_timeout_s=settings.client_timeout / 1_000,
        keep_alive_s=settings.keep_alive / 1_000,
    )


def _listen_per_worker(settings: Settings, workers: Sequence[Process]) -> list[list[socket.socket]]:
    """Returns the listening sockets of each worker. The kernel spreads connections over the workers that serve the API,
    or over all workers if none does."""
    addresses = addresses_of(settings)
    answering = [worker for worker in workers if Role.API in worker.roles] or workers
    sockets: list[list[socket.socket]] = []
    for worker in workers:
        own = [listen(host, port, shared=True) for host, port in addresses] if worker in answering else []
        if own:
            # Port 0 means any free port. All workers listen on the one that the first worker got.
            addresses = [
                (host, listening.getsockname()[1]) for (host, _), listening in zip(addresses, own, strict=True)
            ]
        sockets.append(own)
    return sockets


def _close(sockets: Iterable[Sequence[socket.socket]]) -> None:
    for own in sockets:
        for listening in own:
            listening.close()
