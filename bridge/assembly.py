"""A whole bridge process but for its front end: the service and the loops beside it."""

from __future__ import annotations

from bridge.acks import AckListener
from bridge.checkpoint.loop import Checkpoint
from bridge.service.service import Service
from bridge.settings import Settings


def assemble(settings: Settings) -> Service:
    service = Service(settings)
    service.add(Checkpoint(service.parts))
    service.add(AckListener(service.parts))
    return service
