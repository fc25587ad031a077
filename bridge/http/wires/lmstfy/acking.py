"""Ack, which is also delete: a job ends, whatever it was about to do."""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import nothing
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.model.errors import Conflict, NotFound
from bridge.model.message import State, valid_id


async def ack(exchange: LmstfyRequest) -> Response:
    """204 also where there is no such job, or no longer."""
    await end(exchange)
    return nothing()


async def end(exchange: LmstfyRequest) -> None:
    """
    Raises:
        Unavailable
    """
    topic, job_id, service = topic_of(exchange.namespace, exchange.queue), exchange.params["job_id"], exchange.service
    if not valid_id(job_id):
        return
    with suppress(NotFound, Conflict):
        record = (await service.lookup.get(topic, job_id)).record
        if record.state is State.LEASED or (record.state is State.READY and record.attempts):
            await service.settling.ack_ids(topic, [job_id])
        elif record.state is State.DEAD:
            await service.dead.drop(topic, job_id)
        elif not record.state.ended:
            await service.changing.delete(topic, job_id, release=True)
        else:
            return
        elapsed_ms = service.context.store.clock.now_ms() - record.created_ms
        exchange.wire.metrics.ended(exchange.found.pool, exchange.namespace, exchange.queue, elapsed_ms)
