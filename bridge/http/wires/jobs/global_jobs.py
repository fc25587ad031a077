"""Moves, finds and ends jobs whose ids are unique over all topics.

A push of a living id moves the job to the push's topic, and a client ends a job by its id alone. In the bridge an id
belongs to its topic. So before the wire sends a job, it notes in Redis in which topics the id may be. The note only
shortens the search: if it leads to no living job, all topics are searched. So neither a crash nor a lost note loses a
job. A process may die during a push, after the send and before it deletes the job in the old topic. Then both jobs
exist until the client repeats the push, or finishes or deletes the id.

The search of all topics finds only messages that these wires sent: the same id in another wire's topic is another
message. A pop also notes its job. So a client can finish the job by its id, even if another wire sent the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fastapi import Request

from bridge.access.caller import Caller
from bridge.http import trace_context
from bridge.http.cancel_on_disconnect import unless_gone
from bridge.http.wires.digested_names import topic_of
from bridge.http.wires.jobs import job_messages
from bridge.http.wires.jobs.job_messages import Job
from bridge.model.errors import Conflict, NotFound, Unavailable
from bridge.model.message import Message, id_of

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

_NOTED_MS: Final = 30 * 86_400_000  # after the due time, or after the last pop


class GlobalJobs:
    """Pushes, pops and ends jobs by ids that are unique over all topics.

    Only `push` and `pop` refuse a topic that the caller's token does not allow; the other calls ignore such topics.
    Every method raises Unavailable if a server does not answer. The outcome is then unknown, and the client repeats the
    call.
    """

    def __init__(self, service: Pools) -> None:
        self._service = service

    async def push(self, job: Job, request: Request, caller: Caller) -> None:
        """Sends the job. It replaces the living message with its id in its topic, and living jobs with its id in
        others.

        Raises:
            InvalidRequest: a name, the body or the delay is too long.
            NotAllowed: the token does not allow the topic.
            TooManyTopics: the topic is new, and the token may make no more topics.
        """
        draft = job_messages.draft_of(job, max_body=caller.max_body(self._service.settings.max_body))
        draft = trace_context.carried(draft, trace_context.given(request.scope["headers"]))
        caller.check(draft.topic)
        message_id, keep_ms = id_of(job.id), job.delay_s * 1_000 + _NOTED_MS
        await self._service.serving(draft.topic).topics.admit(draft.topic, caller.maker)
        before = await self._elsewhere(message_id, draft.topic, keep_ms, caller)
        sent = await self._service.serving(draft.topic).replacing.put(draft, waits=True)
        # Two clients may push the id to different topics at once. The push that looks last sees both jobs, and both
        # pushes keep the same job.
        rank = (sent.message.record.created_ms, draft.topic)
        for topic, created_ms in (await self._elsewhere(message_id, draft.topic, keep_ms, caller)).items():
            if before.get(topic) == created_ms or (created_ms, topic) < rank:
                await self._delete(topic, message_id, created_ms)
            else:
                await self._delete(draft.topic, message_id, sent.message.record.created_ms)

    async def pop(self, names: Sequence[str], request: Request, caller: Caller, *, wait_ms: int) -> Job | None:
        """Leases the first ready job, and returns it. Returns None if no job was ready within `wait_ms`, or the client
        disconnected. The caller must have read the request's body. `names`: the clients' names of topics, the most
        urgent first.

        Raises:
            NotAllowed: the token does not allow a topic.
        """
        topics = list(dict.fromkeys(topic_of(name) for name in names))
        caller.check(*topics)
        pulling = self._service.serving_all(topics).pulling.pull(
            topics, limit=1, wait_ms=wait_ms, lease_ms=job_messages.lease_ms
        )
        leased = await unless_gone(request.receive, pulling) or []
        if not leased:
            return None
        record, job = leased[0].message.record, job_messages.job_of(leased[0].message)
        with suppress(Unavailable):  # the client has the job, and the search of all topics finds it
            await self._service.default.topics_by_id.note(
                record.id, record.topic, keep_ms=job.ttr_s * 1_000 + _NOTED_MS
            )
        return job

    async def finish(self, job_id: str, caller: Caller) -> bool:
        """Acknowledges the living jobs with the id, also those that were not popped. Returns False if there is none."""
        found = await self._live(job_id, caller)
        for message in found:
            await self._service.serving(message.record.topic).settling.ack_ids(
                message.record.topic, [message.record.id]
            )
        return await self._ended(found)

    async def delete(self, job_id: str, caller: Caller) -> bool:
        found = await self._live(job_id, caller)
        for message in found:
            await self._delete(message.record.topic, message.record.id, None)
        return await self._ended(found)

    async def find(self, job_id: str, caller: Caller) -> Message | None:
        """Returns the latest living job with the id. Otherwise returns the latest ended job whose record Redis
        still keeps. None: there is no such job."""
        message_id = id_of(job_id)
        noted = await self._seen(await self._service.default.topics_by_id.of(message_id), message_id, caller)
        if not any(_lives(message) for message in noted):
            everywhere = await self._seen(await self._service.topic_names(), message_id, caller)
            noted += [message for message in everywhere if job_messages.is_job(message)]
        return max(noted, key=lambda message: (_lives(message), message.record.created_ms), default=None)

    async def _live(self, job_id: str, caller: Caller) -> list[Message]:
        message_id = id_of(job_id)
        noted = await self._seen(await self._service.default.topics_by_id.of(message_id), message_id, caller)
        if found := [message for message in noted if _lives(message)]:
            return found
        everywhere = await self._seen(await self._service.topic_names(), message_id, caller)
        return [message for message in everywhere if _lives(message) and job_messages.is_job(message)]

    async def _seen(self, topics: Sequence[str], message_id: str, caller: Caller) -> list[Message]:
        return await self._service.find([topic for topic in topics if caller.sees(topic)], message_id)

    async def _elsewhere(self, message_id: str, topic: str, keep_ms: int, caller: Caller) -> dict[str, int]:
        """Stores in Redis that a job with the id is in the topic. Returns the creation times, in Unix ms, of living
        jobs with the id in other topics, by topic. `keep_ms`: how long Redis keeps the note."""
        noted = await self._service.default.topics_by_id.note(message_id, topic, keep_ms=keep_ms)
        found = await self._seen([other for other in noted if other != topic], message_id, caller)
        return {
            message.record.topic: message.record.created_ms
            for message in found
            if _lives(message) and job_messages.is_job(message)
        }

    async def _delete(self, topic: str, message_id: str, created_ms: int | None) -> None:
        changing = self._service.serving(topic).changing
        with suppress(NotFound, Conflict):
            await changing.delete(topic, message_id, release=True, created_ms=created_ms, waits=True)

    async def _ended(self, found: Sequence[Message]) -> bool:
        for message in found:
            await self._service.default.topics_by_id.shorten(
                message.record.id, keep_ms=self._service.settings.retention
            )
        return bool(found)


def _lives(message: Message) -> bool:
    return not message.record.state.ended
