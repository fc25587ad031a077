"""A whole bridge process but for its front end: the service of each pool, and the loops of its roles beside it."""

from __future__ import annotations

from bridge.loops.audit import Audit
from bridge.loops.callbacks.loop import Loop as Callbacks
from bridge.loops.checkpoint.lanes import Checkpoints
from bridge.loops.recorded_acks import AckListener
from bridge.service.pools import Pools, Routes
from bridge.service.service import Service
from bridge.settings.pools import DEFAULT
from bridge.settings.roles import Role
from bridge.settings.settings import Settings


def assemble(settings: Settings) -> Service:
    pools = settings.pools or {}
    if not pools:
        return _pool(settings, DEFAULT)
    services = {name: _pool(settings.of_pool(name), name) for name in (DEFAULT, *pools)}
    return Pools(services, Routes({namespace: name for name, pool in pools.items() for namespace in pool.namespaces}))


def _pool(settings: Settings, name: str) -> Service:
    service = Service(settings, pool=name)
    if Role.CHECKPOINT in settings.roles:
        checkpoint = Checkpoints(service.context)
        service.add(checkpoint)
        service.add(AckListener(service.context))
        if settings.audit_every:
            service.add(Audit(service.context, checkpoint))
    if Role.PUSH in settings.roles:
        service.add(Callbacks(service))
    return service
