"""A whole bridge process but for its front end: the service of each pool, and the loops of its roles beside it."""

from __future__ import annotations

from bridge.acks import AckListener
from bridge.audit import Audit
from bridge.checkpoint.lanes import Checkpoints
from bridge.pool_settings import DEFAULT
from bridge.push.loop import Push
from bridge.roles import Role
from bridge.service.pools import Pools, Routes
from bridge.service.service import Service
from bridge.settings import Settings


def assemble(settings: Settings) -> Service:
    pools = settings.pools or {}
    if not pools:
        return _pool(settings, DEFAULT)
    services = {name: _pool(settings.of_pool(name), name) for name in (DEFAULT, *pools)}
    return Pools(services, Routes({namespace: name for name, pool in pools.items() for namespace in pool.namespaces}))


def _pool(settings: Settings, name: str) -> Service:
    service = Service(settings, pool=name)
    if Role.CHECKPOINT in settings.roles:
        checkpoint = Checkpoints(service.parts)
        service.add(checkpoint)
        service.add(AckListener(service.parts))
        if settings.audit_every:
            service.add(Audit(service.parts, checkpoint))
    if Role.PUSH in settings.roles:
        service.add(Push(service))
    return service
