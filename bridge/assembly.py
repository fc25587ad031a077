"""A whole bridge process but for its front end: the service and the loops beside it."""

from __future__ import annotations

from bridge.acks import AckListener
from bridge.audit import Audit
from bridge.checkpoint.loop import Checkpoint
from bridge.push.loop import Push
from bridge.service.service import Service
from bridge.settings import Settings


def assemble(settings: Settings) -> Service:
    service = Service(settings)
    checkpoint = Checkpoint(service.parts)
    service.add(checkpoint)
    service.add(AckListener(service.parts))
    if settings.audit_every:
        service.add(Audit(service.parts, checkpoint))
    if settings.push:
        service.add(Push(service))
    return service
