"""Accepts messages whose delay is in a header: sends each as a client's draft, and says which deliveries are done. A
session accepts the deliveries of one channel.

    choose an id ──> note it as an intent ──> send (`send_groups.py`) ──> the caller acknowledges
                                      RabbitMQ has certainly taken the acknowledgement ──> forget the intent

The bridge may die after each step, and RabbitMQ then redelivers the message. So the bridge writes an intent to Redis
before the send: the message's id, and the moment since which the message has it. The next session takes over the intent
of the ended session. If a record of this id is not older than this moment, the message was accepted. Without an intent,
the session sends the message as a new one. RabbitMQ does not confirm an acknowledgement, and an acknowledgement that
was written just before a crash may be lost. So the intent is kept until RabbitMQ has certainly taken the
acknowledgement.

The id is the client's id. If another message has this id already, the bridge makes a new id for the new message. The
bridge can't tell a publisher that repeats a publish from one that uses an id twice. So no message is lost, and the
header `x-delay-message-id` has the client's id.

If the client gave no id, nothing tells equal messages apart. An intent that outlived its message could be taken for the
intent of an equal message, and that message would be lost. So the intent of a message without a client's id is
forgotten before the acknowledgement. If the bridge dies between the two steps, the message is delivered twice, under
two ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Final

from bridge.broker.copies.copies import CLIENTS_ID
from bridge.broker.copies.submissions import Submission
from bridge.model.errors import InvalidRequest, Unavailable, Undeclarable, Unpublishable
from bridge.model.message import State
from bridge.model.ulids import new_ulid
from bridge.model.values import Draft, Sent
from bridge.service.context import Context
from bridge.service.sending.sending import Sending
from bridge.store.kept.intents import Found, Intent, Note, StoredIntents

_FORGET_EVERY_S: Final = 1.0


@dataclass(slots=True)
class _Item:
    """A submission that is not done. `id`: the message id under which the bridge accepts it; empty: none yet. `intent`:
    the intent in Redis; None: not written yet. `tried`: the submission may be accepted already."""

    submission: Submission
    id: str = ""
    intent: Intent | None = None
    tried: bool = False

    @property
    def note(self) -> Note:
        """The key of the submission's intent, which is the plan in Redis to accept the message."""
        return Note(self.submission.topic, self.id, self.submission.tag)


@dataclass(frozen=True, slots=True)
class Accepted:
    """The result of `accept`. `done`: delivery tags to acknowledge. `refused`: messages that can't be accepted, each
    with the reason. `later`: messages to pass to `accept` again after a short pause. `errors`: the errors of servers
    that were away."""

    done: list[int] = field(default_factory=list)
    refused: list[tuple[Submission, str]] = field(default_factory=list)
    later: list[Submission] = field(default_factory=list)
    errors: list[Unavailable] = field(default_factory=list)


class Acceptance:
    """Accepts the deliveries of one channel. A delivery is known by its tag."""

    def __init__(self, context: Context) -> None:
        self._store = context.store
        self._records = context.records
        self._sending = Sending(context)
        self._intents = StoredIntents(context.store, context.records.keys, new_ulid())
        self._items: dict[int, _Item] = {}
        self._left: list[Note] = []  # intents of acknowledged messages, which are to be forgotten
        self._ids: dict[tuple[str, str], int] = {}  # by topic and id: the tag of the message being accepted under it

    def by_server(self, submissions: Sequence[Submission]) -> list[list[Submission]]:
        """Groups messages by the Redis server that keeps the intents of their topics (`StoredIntents`). Returns one
        list for each server. A server that is away then delays only its own group."""
        groups = self._intents.by_server([one.topic for one in submissions])
        return [[submissions[at] for at in indexes] for indexes in groups]

    async def accept(self, submissions: Sequence[Submission]) -> Accepted:
        """Accepts one group of messages, and returns what became of each. The caller acknowledges the deliveries in
        `Accepted.done` before it accepts other groups, and passes the messages in `Accepted.later` to this method
        again."""
        items = [self._items.setdefault(one.tag, _Item(one)) for one in submissions]
        accepted = Accepted()
        try:
            waiting = await self._name(items)
            ready = [item for item in items if item.submission.tag not in waiting]
            await self._note(ready)
            known, unread = await self._known([item for item in ready if item.tried], accepted.errors)
            waiting |= unread
            done = [item for item in ready if item.submission.tag in known]
            sent = [item for item in ready if item.submission.tag not in known | unread]
            taken = await self._send(sent, accepted, done)
            refused = [self._items[submission.tag] for submission, _ in accepted.refused]
            nameless = [item for item in done if not item.submission.message_id]
            await self._forget([*taken, *(item.note for item in (*nameless, *refused))])
        except Unavailable as error:
            return Accepted(later=[*submissions], errors=[error])
        for item in (*nameless, *refused):
            self._drop(item)
        accepted.done.extend(item.submission.tag for item in done)
        accepted.later.extend(item.submission for item in items if item.submission.tag in waiting)
        return accepted

    def acknowledged(self, accepted: Accepted) -> None:
        """Remembers that the caller has acknowledged the messages in `accepted.done`."""
        for tag in accepted.done:
            if (item := self._items.get(tag)) is not None:
                self._left.append(item.note)
                self._drop(item)

    async def forget_acknowledged(self, until_taken: Callable[[], Awaitable[None]]) -> None:
        """Removes the intents of acknowledged messages, every second; never ends. `until_taken`: returns once RabbitMQ
        has taken all acknowledgements that were written before its call."""
        while True:
            await asyncio.sleep(_FORGET_EVERY_S)
            if left := [*self._left]:
                with suppress(Unavailable):  # the next round tries again
                    await until_taken()
                    self._left = [*await self._forget_each(left), *self._left[len(left) :]]

    async def end(self) -> None:
        """Ends the session, so that other sessions can take over its messages at once. No other method may be called
        after it.

        If a Redis server does not answer, other sessions take its messages over only once this session has written
        nothing for five seconds.
        """
        topics = list({note.topic for note in (*self._left, *(item.note for item in self._items.values()))})
        for indexes in self._intents.by_server(topics):
            with suppress(Unavailable):
                await self._intents.end([topics[at] for at in indexes], self._now_ms())

    async def _name(self, items: Sequence[_Item]) -> set[int]:
        """Gives an id to each message that has none and need not wait. Returns the tags of messages that have to wait:
        another session has noted an intent for an equal message, and may still accept it."""
        again = [item for item in items if item.submission.again and not item.id]
        waiting: set[int] = set()
        if again:
            await self._learn_clock()
            topics = list({item.submission.topic for item in again})
            fingerprints = {item.submission.fingerprint for item in again}
            found = await self._intents.others(topics, fingerprints, self._now_ms())
            for item in again:
                waiting |= await self._take_over(item, found)
        for item in items:
            if not item.id and item.submission.tag not in waiting:
                self._give(item, item.submission.message_id)
        return waiting

    async def _take_over(self, item: _Item, found: list[Found]) -> set[int]:
        """Takes over an intent for the message, if an ended session left one. Returns the message's tag if the message
        has to wait, else an empty set."""
        its_own = [one for one in found if one.intent.fingerprint == item.submission.fingerprint]
        for one in its_own:
            if not one.ended or (item.submission.topic, one.note.id) in self._ids:
                continue
            found.remove(one)
            # First note an intent of this session: a crash in between leaves two intents, and no message is lost.
            own = one.note._replace(tag=item.submission.tag)
            await self._intents.begin({own: one.intent}, self._now_ms())
            if await self._intents.take(one):
                item.id, item.intent, item.tried = own.id, one.intent, True
                self._ids[own.topic, own.id] = own.tag
                return set()
            await self._intents.done([own])
        return {item.submission.tag} if any(not one.ended for one in its_own) else set()

    def _give(self, item: _Item, wanted: str) -> None:
        topic, tag = item.submission.topic, item.submission.tag
        item.id = new_ulid() if not wanted or (topic, wanted) in self._ids else wanted
        item.intent, item.tried = None, False
        self._ids[topic, item.id] = tag

    async def _note(self, items: Sequence[_Item]) -> None:
        """Writes the intents of messages that have none yet. Keeps the session alive for the topics of messages that it
        tries again, so that no other session takes their intents over."""
        if not items:
            return
        new = [item for item in items if item.intent is None]
        tried = {item.submission.topic for item in items if item.intent is not None}
        await self._learn_clock()
        now_ms = self._now_ms()
        intents = {item.note: Intent(item.submission.fingerprint, now_ms) for item in new}
        await self._intents.begin(intents, now_ms, alive=tried)
        for item in new:
            item.intent = intents[item.note]

    async def _known(self, items: Sequence[_Item], errors: list[Unavailable]) -> tuple[set[int], set[int]]:
        """Looks up the records of these messages. Returns two sets of tags: of messages that were accepted, and of
        messages whose records can't be read now. Adds the errors of servers that were away to `errors`."""
        calls = [self._records.look(item.submission.topic, item.id) for item in items]
        known: set[int] = set()
        unread: set[int] = set()
        for indexes in self._store.by_server([call.keys[0] for call in calls]):
            try:
                looked = await self._store.run([calls[at] for at in indexes])
            except Unavailable as error:
                errors.append(error)
                unread |= {items[at].submission.tag for at in indexes}
                continue
            for item, record in zip([items[at] for at in indexes], [one.record for one in looked], strict=True):
                if record is not None and record.state is not State.UNCONFIRMED and _is_of(item, record.created_ms):
                    known.add(item.submission.tag)
        return known, unread

    async def _send(self, items: Sequence[_Item], accepted: Accepted, done: list[_Item]) -> list[Note]:
        """Sends messages. Adds each message to `done`, or to `accepted.refused` or `accepted.later`. If another message
        had the id already, gives the message a new id, for a later send. Returns the keys of the intents under the old
        ids."""
        before = [item.tried for item in items]
        for item in items:
            item.tried = True
        results = await self._sending.send_many([_draft(item) for item in items])
        taken: list[Note] = []
        for item, was_tried, result in zip(items, before, results, strict=True):
            if isinstance(result, Sent):
                its_own = was_tried and _is_of(item, result.message.record.created_ms)
                if not result.replayed or its_own:
                    done.append(item)
                    continue
                taken.append(item.note)
                self._ids.pop((item.submission.topic, item.id), None)
                self._give(item, "")
            elif isinstance(result, InvalidRequest | Unpublishable | Undeclarable):
                accepted.refused.append((item.submission, str(result)))
                continue
            elif not isinstance(result, Unavailable):
                raise result
            else:
                accepted.errors.append(result)
            accepted.later.append(item.submission)
        return taken

    async def _forget(self, notes: Sequence[Note]) -> None:
        if notes:
            await self._intents.done(notes)

    async def _forget_each(self, notes: Sequence[Note]) -> list[Note]:
        """Removes intents from Redis. Returns the keys of intents that it could not remove, because their server is
        away."""
        left: list[Note] = []
        for indexes in self._intents.by_server([note.topic for note in notes]):
            of_server = [notes[at] for at in indexes]
            try:
                await self._intents.done(of_server)
            except Unavailable:
                left += of_server
        return left

    def _drop(self, item: _Item) -> None:
        self._items.pop(item.submission.tag, None)
        self._ids.pop((item.submission.topic, item.id), None)

    async def _learn_clock(self) -> None:
        if not self._store.clock.known:
            await self._store.learn_clock()

    def _now_ms(self) -> int:
        return int(self._store.clock.now_ms())


def _is_of(item: _Item, created_ms: int) -> bool:
    """Whether a record under the item's id belongs to the item, and not to an earlier message. `created_ms`: when the
    record was created, in Unix ms."""
    return item.intent is not None and created_ms >= item.intent.since_ms


def _draft(item: _Item) -> Draft:
    draft, clients_id = item.submission.draft, item.submission.message_id
    envelope = draft.envelope
    if item.id != clients_id and CLIENTS_ID not in envelope.headers and clients_id:
        envelope = replace(envelope, headers={**envelope.headers, CLIENTS_ID: clients_id})
    return replace(draft, id=item.id, envelope=envelope)
