"""Restores a backup: makes topics, adds schedules and fields of Redis hashes, and publishes the messages again.

A restored message gets a new copy. Its epoch is later than those of the copies that the backup and Redis name. So a
copy that RabbitMQ still has is a ghost. A message that was restored before, or has changed since the backup, stays as
it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, assert_never

from bridge.backup.lines import (
    BadBackup,
    Kind,
    Topic,
    check_head,
    read,
    read_field,
    read_message,
    read_schedule_line,
    read_topic,
)
from bridge.backup.taking import needs_body
from bridge.model.errors import StoreUnavailable
from bridge.model.message import CopyKind, Envelope, Message, Record, State, new_nonce
from bridge.service.protocol.steps import Step, Succeed, Update, named
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.successors import dead, later, successor
from bridge.service.schedules.definition import Schedule, Template, progress_json, spec_json, template_json
from bridge.service.service import Service
from bridge.store.kept.kept_fields import KeptFields
from bridge.store.kept.policies import StoredPolicies
from bridge.store.kept.schedules import MOST, Full, StoredSchedules
from bridge.store.messages.verdicts import RestoreVerdict

_GROUP: Final = 256
_GROUP_BYTES: Final = 8 << 20


class Restore:
    """Restores a backup. `counts` has the numbers of restored `topics`, `fields`, `schedules` and `messages`.

    `counts` also has the numbers of items that were not restored. `kept`: the messages and schedules that exist
    already. `without_body`: the messages whose body is needed and is not in the backup. `forgotten`: the ended messages
    whose retention time is over.
    """

    def __init__(self, service: Service) -> None:
        self._context = service.context
        self._records = service.context.records
        self._succession = Succession.of_calls(self._context)
        self._fields = KeptFields(self._context.store, self._records.keys)
        self._schedules = StoredSchedules(self._context.store, self._records.keys)
        self._policies = StoredPolicies(self._context.store, self._records.keys)
        self.counts: Counter[str] = Counter()

    async def run(self, lines: Iterable[bytes]) -> None:
        """Restores every line. At most 256 messages are in memory, and at most 8 MiB of lines plus the line of one
        message.

        Raises:
            BadBackup: a line is wrong, the end is missing, or Redis has room for no further schedule. The lines before
                that place are restored.
            Unavailable: a server did not answer. Some lines are restored. Restore the backup again.
        """
        await self._context.store.learn_clock()
        group: list[Message] = []
        try:
            await self._read(lines, group)
        except BadBackup:
            # A file that was cut off ends in a wrong line.
            await self._restore(group)
            raise
        await self._restore(group)

    async def _read(self, lines: Iterable[bytes], group: list[Message]) -> None:
        """Reads the lines and restores each, but restores messages in groups. `group`: holds the messages that were
        read and are not restored yet, also after an error. The caller restores these messages."""
        size, kind, number = 0, None, 0
        for number, text in enumerate(lines, 1):
            line = read(text, number)
            kind = Kind(line["kind"])
            if (kind is Kind.HEAD) != (number == 1):
                raise BadBackup(f"line {number} is of the kind {kind}, and the head is the first line alone")
            match kind:
                case Kind.HEAD:
                    check_head(line)
                case Kind.TOPIC:
                    await self._topic(read_topic(line, number))
                case Kind.FIELD:
                    self.counts["fields"] += await self._fields.add(read_field(line, number))
                case Kind.SCHEDULE:
                    await self._schedule(read_schedule_line(line, number))
                case Kind.MESSAGE:
                    group.append(read_message(line, number))
                    size += len(text)
            if len(group) >= _GROUP or size >= _GROUP_BYTES:
                await self._restore(group)
                group.clear()
                size = 0
        if kind is not Kind.END:
            raise BadBackup(f"it stops at line {number}, without its end: the rest is missing")

    async def _topic(self, topic: Topic) -> None:
        await self._context.topics.used(topic.name)
        if topic.policy is not None and await self._policies.get(topic.name) is None:
            await self._context.topics.put_policy(topic.name, topic.policy)
        self.counts["topics"] += 1

    async def _schedule(self, schedule: Schedule) -> None:
        """Adds a schedule, unless a schedule of this name exists. The added schedule begins now, because the bridge
        does not know which ticks were sent since the backup."""
        lease = await self._schedules.lease(schedule.name)
        if lease is None:
            raise StoreUnavailable(f"somebody changes the schedule {schedule.name!r}: run it again")
        if await self._schedules.get(schedule.name) is not None:
            self.counts["kept"] += 1
            await self._schedules.leave(lease)
            return
        now_ms = lease.now_ms
        schedule = schedule.but(since_ms=now_ms, position_ms=now_ms, unsent=(), planned=())
        try:
            await self._schedules.save(
                lease,
                state=progress_json(schedule.progress),
                wake_ms=schedule.wake_ms,
                leave=True,
                spec=spec_json(schedule.spec),
                message=template_json(schedule.spec.template or Template()),
            )
        except Full:
            raise BadBackup(f"there are {MOST} schedules, which is the limit: {schedule.name!r} is one more") from None
        self.counts["schedules"] += 1

    async def _restore(self, messages: Sequence[Message]) -> None:
        now_ms = int(self._context.store.clock.now_ms())
        steps: list[Step[RestoreVerdict]] = []
        for message, former in zip(messages, await self._formers(messages), strict=True):
            if former is not None and not _is_newer(message.record, former):
                self.counts["kept"] += 1
            elif needs_body(message) and (message.envelope is None or message.envelope.body is None):
                self.counts["without_body"] += 1
            elif not needs_body(message) and message.record.forget_ms <= now_ms:
                self.counts["forgotten"] += 1
            else:
                steps.append(self._step(message, former, now_ms))
        results = await self._succession.perform(steps)
        for result in results:
            match verdict := named(result).verdict:
                case RestoreVerdict.RESTORED:
                    self.counts["messages"] += 1
                case RestoreVerdict.KEPT:
                    self.counts["kept"] += 1
                case _:
                    assert_never(verdict)

    async def _formers(self, messages: Sequence[Message]) -> list[Record | None]:
        calls = [self._records.weigh(message.record.topic, message.record.id) for message in messages]
        return [weighed.record for weighed in await self._context.store.run(calls)]

    def _step(self, message: Message, former: Record | None, now_ms: int) -> Step[RestoreVerdict]:
        """Returns the step that restores a message. A live message waits for its due moment; a leased message waits for
        the end of its lease, as its receipt becomes void.

        `former`: the record that Redis has under the message's id; None: it has none. Copies of that record must become
        ghosts, so the new epoch is later than the epochs of both records.
        """
        record, envelope = message.record, message.envelope or Envelope()
        latest = record if former is None else replace(record, epoch=max(record.epoch, former.epoch))
        if not needs_body(message):
            return Update(self._records.restore(record, latest, envelope))
        letter, due_ms = record.state is State.DEAD, max(record.due_ms, record.lease_until_ms)
        attempt = max(1, record.attempts) if letter else record.attempts + 1
        copy = successor(latest, envelope, nonce=new_nonce(), attempt=attempt, due_ms=due_ms)
        state = State.DEAD if letter else State.WAITING
        restored = replace(record, state=state, epoch=copy.epoch, nonce=copy.nonce, due_ms=due_ms)
        name = self._records.restore(record, restored, envelope)
        if letter:
            return Succeed(dead(copy, record.reason), name)
        return Succeed(replace(later(copy, now_ms, CopyKind.RETRY), shares=True), name)


def _is_newer(record: Record, former: Record) -> bool:
    """Whether the record of the backup is newer than `former`, the record in Redis. `restore.lua` makes this check
    again."""
    if record.created_ms != former.created_ms:
        return record.created_ms > former.created_ms
    return record.epoch > former.epoch or (record.epoch == former.epoch and record.nonce != former.nonce)
