"""Ends a job: acknowledges or deletes it, whatever its state."""

from __future__ import annotations

from contextlib import suppress

from starlette.responses import Response

from bridge.http.wires.lmstfy.admission import Admitted
from bridge.http.wires.lmstfy.answers import nothing
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.errors import Conflict, NotFound
from bridge.model.message import State, valid_id


async def ack(request: WireRequest, admitted: Admitted) -> Response:
    """Ends the job. Answers 204 even if the job does not exist or has ended."""
    await end_job(request, admitted)
    return nothing()


async def end_job(request: WireRequest, admitted: Admitted) -> None:
    """Ends the job if it exists. Acknowledges it if it is leased, or ready after an earlier delivery. Drops a dead
    letter, and deletes any other living job.

    Raises:
        Unavailable: a server did not answer, so the job may or may not have ended.
    """
    topic, job_id, service = admitted.topic, request.params["job_id"], admitted.service
    if not valid_id(job_id):
        return
    with suppress(NotFound, Conflict):
        record = (await service.lookup.get(topic, job_id)).record
        if record.state is State.LEASED or (record.state is State.READY and record.attempts):
            await service.settling.ack_ids(topic, [job_id])
        elif record.state is State.DEAD:
            await service.dead.drop(topic, job_id)
        elif not record.state.ended:
            await service.changing.delete(topic, job_id, release=True, waits=True)
        else:
            return
        elapsed_ms = admitted.now_ms() - record.created_ms
        request.wire.metrics.ended(admitted.pool, admitted.namespace, admitted.queue, elapsed_ms)
