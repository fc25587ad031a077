"""Jobs whose ids are of no topic: pushing an id again moves the job, and an id alone ends it.

A bridge's id is of its topic, so it is noted beside, before the job is sent, in which topics an id may be. The note is
a way to look in few topics, not the truth: where it leads to nothing, all topics are asked. So nothing is lost by a
crash, or with a note; a push that died between the send and the end of the job in its former topic leaves both, until
the push is repeated or the id ended.

Only messages that these wires sent are moved or found in all topics: the same id in another topic of another wire is
another message. What is popped is noted, so that it can be finished by its id, whichever wire sent it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from fastapi import Request

from bridge.access.caller import Caller
from bridge.http.wires.cancel_on_disconnect import unless_gone
from bridge.http.wires.jobs import job_messages
from bridge.http.wires.jobs.job_messages import Job
from bridge.model.errors import Conflict, NotFound, Unavailable
from bridge.model.message import Message

if TYPE_CHECKING:
    from bridge.service.service import Service

_NOTED_MS: Final = 30 * 86_400_000  # longer than due, or than the last pop


class GlobalJobs:
    """Topics that the caller's token is not for are as if they were not there, but to `push` and `pop`.

    Everything raises Unavailable: nothing was promised.
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    async def push(self, job: Job, caller: Caller) -> None:
        """
        Raises:
            InvalidRequest, NotAllowed
        """
        draft = job_messages.draft_of(job, max_body=caller.max_body(self._service.settings.max_body))
        caller.check(draft.topic)
        message_id, keep_ms = job_messages.id_of(job.id), job.delay_s * 1_000 + _NOTED_MS
        before = await self._elsewhere(message_id, draft.topic, keep_ms, caller)
        sent = await self._service.replacing.put(draft)
        # Two pushes at once, to different topics: whichever looks last sees both, and all agree on which is to stay.
        place = (sent.record.created_ms, draft.topic)
        for topic, created_ms in (await self._elsewhere(message_id, draft.topic, keep_ms, caller)).items():
            if before.get(topic) == created_ms or (created_ms, topic) < place:
                await self._delete(topic, message_id, created_ms)
            else:
                await self._delete(draft.topic, message_id, sent.record.created_ms)

    async def pop(self, names: Sequence[str], request: Request, caller: Caller, *, wait_ms: int) -> Job | None:
        """The first job there is, by the order of the topics. The request has been read.

        Raises:
            NotAllowed
        """
        topics = list(dict.fromkeys(job_messages.topic_of(name) for name in names))
        caller.check(*topics)
        pulling = self._service.pulling.pull(topics, limit=1, wait_ms=wait_ms, lease_ms=job_messages.lease_ms)
        leased = await unless_gone(request, pulling) or []
        if not leased:
            return None
        record, job = leased[0].message.record, job_messages.job_of(leased[0].message)
        with suppress(Unavailable):  # it is this client's already, and can be found without
            await self._service.topics_by_id.note(record.id, record.topic, keep_ms=job.ttr_s * 1_000 + _NOTED_MS)
        return job

    async def finish(self, job_id: str, caller: Caller) -> bool:
        """Whatever it was about to do; false where there is no such job."""
        found = await self._live(job_id, caller)
        for message in found:
            await self._service.settling.ack_ids(message.record.topic, [message.record.id])
        return await self._ended(found)

    async def delete(self, job_id: str, caller: Caller) -> bool:
        found = await self._live(job_id, caller)
        for message in found:
            await self._delete(message.record.topic, message.record.id, None)
        return await self._ended(found)

    async def find(self, job_id: str, caller: Caller) -> Message | None:
        """Ended jobs too, for a while; a living one rather, and the latest."""
        message_id = job_messages.id_of(job_id)
        noted = await self._seen(await self._service.topics_by_id.of(message_id), message_id, caller)
        if not any(_lives(message) for message in noted):
            everywhere = await self._seen(await self._service.topics.names(), message_id, caller)
            noted += [message for message in everywhere if job_messages.is_job(message)]
        return max(noted, key=lambda message: (_lives(message), message.record.created_ms), default=None)

    async def _live(self, job_id: str, caller: Caller) -> list[Message]:
        message_id = job_messages.id_of(job_id)
        noted = await self._seen(await self._service.topics_by_id.of(message_id), message_id, caller)
        if found := [message for message in noted if _lives(message)]:
            return found
        everywhere = await self._seen(await self._service.topics.names(), message_id, caller)
        return [message for message in everywhere if _lives(message) and job_messages.is_job(message)]

    async def _seen(self, topics: Sequence[str], message_id: str, caller: Caller) -> list[Message]:
        return await self._service.lookup.find([topic for topic in topics if caller.sees(topic)], message_id)

    async def _elsewhere(self, message_id: str, topic: str, keep_ms: int, caller: Caller) -> dict[str, int]:
        """Notes the topic; when the living jobs of the id in others were made, by their topics."""
        noted = await self._service.topics_by_id.note(message_id, topic, keep_ms=keep_ms)
        found = await self._seen([other for other in noted if other != topic], message_id, caller)
        return {
            message.record.topic: message.record.created_ms
            for message in found
            if _lives(message) and job_messages.is_job(message)
        }

    async def _delete(self, topic: str, message_id: str, created_ms: int | None) -> None:
        with suppress(NotFound, Conflict):
            await self._service.changing.delete(topic, message_id, release=True, created_ms=created_ms)

    async def _ended(self, found: Sequence[Message]) -> bool:
        for message in found:
            await self._service.topics_by_id.shorten(message.record.id, keep_ms=self._service.settings.retention)
        return bool(found)


def _lives(message: Message) -> bool:
    return not message.record.state.ended
