"""Builds a bridge process without its front end: a service for each pool, and the loops of its roles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bridge.cli.declared_schedules import declared_schedules
from bridge.loops.audit import Audit
from bridge.loops.callbacks.loop import Loop as Callbacks
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.ingress import Ingress
from bridge.loops.operations import Operations
from bridge.loops.recorded_acks import AckListener
from bridge.loops.schedules import Schedules
from bridge.loops.watch import Watch
from bridge.metrics.process import CERTIFICATE
from bridge.metrics.topics import LABELS
from bridge.model.tls import expires_s
from bridge.service.pools.pools import Pools, Routes
from bridge.service.pools.worker_rpc import WorkerRpc
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.roles import Role
from bridge.settings.settings import Settings

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries


def assemble(settings: Settings, worker_rpc: WorkerRpc | None = None, tracing: Deliveries | None = None) -> Pools:
    """Builds all pools of the process and does not start them. `worker_rpc`: reaches the other worker processes; None:
    there are none. `tracing`: traces the deliveries of all pools; None: they are not traced.

    Raises:
        WrongSettings: the file of schedules is wrong.
    """
    LABELS.most = settings.metrics_topics
    for setting, cert in (("BRIDGE_HTTP_CERT", settings.http_cert), ("BRIDGE_TLS_CERT", settings.tls_cert)):
        if cert is not None:
            CERTIFICATE.labels(setting).set(expires_s(cert))
    pools = settings.pools or {}
    services = {name: _service(settings.of_pool(name), name, tracing) for name in (DEFAULT, *pools)}
    routes = Routes({namespace: name for name, pool in pools.items() for namespace in pool.namespaces})
    assembled = Pools(services, routes, worker_rpc)
    if Role.CHECKPOINT in settings.roles:
        # Both loops work on the topics of all pools.
        assembled.default.add(Operations(assembled))
        assembled.default.add(Schedules(assembled, declared_schedules(settings)))
    return assembled


def _service(settings: Settings, pool: str, tracing: Deliveries | None) -> Service:
    service = Service(settings, pool=pool, tracing=tracing)
    watch = Watch(service.loops_context)
    service.add(watch)
    service.report(watch)
    if Role.CHECKPOINT in settings.roles:
        checkpoint = Checkpoints(service.loops_context)
        service.add(checkpoint)
        service.add(AckListener(service.loops_context))
        service.add(Ingress(service.loops_context))
        if settings.audit_every:
            service.add(Audit(service.loops_context, checkpoint))
    if Role.PUSH in settings.roles:
        service.add(Callbacks(service))
    return service
