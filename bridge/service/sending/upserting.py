"""Sends messages whose callers say what happens if a live message has the id (`IfExists`).

Sends that replace or extend one message wait for each other in a process. Those of one kind that wait together are
carried out as one send. The message gets the content of the last of them, as if the others had come just before. So a
thousand sends that race for one id publish a few copies, not a thousand. Between processes, epoch and nonce of the
record decide which send succeeds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING, Final

from bridge.model.errors import BridgeError, Conflict, InvalidRequest, StoreUnavailable, Unpublishable
from bridge.model.group_commit import GroupCommit
from bridge.model.message import Envelope
from bridge.model.values import Draft, IfExists, Sent
from bridge.service.context import Context
from bridge.service.sending.extending import Extending
from bridge.service.sending.replacing import Replacing
from bridge.service.sending.same_content import other_field
from bridge.service.sending.send_groups import LATE
from bridge.service.sending.sending import Sending
from bridge.service.topics.maker import Maker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_TOGETHER: Final = 1_000
_AT_ONCE: Final = 64  # sends of one batch that are under way together
_WITHIN_S: Final = 10.0
_CHANGING: Final = (IfExists.REPLACE, IfExists.EXTEND)

_Key = tuple[str, str | None, str | None]
_Line = GroupCommit[Draft, Sent | BridgeError]


class Upserting:
    def __init__(self, context: Context, sending: Sending, replacing: Replacing) -> None:
        self._store = context.store
        self._sending = sending
        self._replacing = replacing
        self._extending = Extending(context, sending, replacing)
        self._lines: dict[_Key, tuple[_Line, int]] = {}

    async def send(self, draft: Draft, maker: Maker | None = None) -> Sent:
        """Sends one message as its `if_exists` asks, and returns the result. `maker`: a client with a limited number of
        topics; None: no limit.

        Raises:
            InvalidRequest: the message would be due beyond the longest delay or `max_wait_ms`, or its target may not be
                used. Or `if_exists` is `SAME`, and the message of the id has other content.
            Conflict: `if_exists` is `ERROR`, and a message has the id. Or `if_exists` is `REPLACE`, and the message of
                the id is just being released.
            BridgeError: `maker` may make no more topics.
            Unavailable: the message may be accepted or not. Send again with the same id.
        """
        if draft.if_exists not in _CHANGING:
            sent = await self._sending.send(draft, maker)
            return accepted(draft, sent) if sent.replayed else sent
        await self._check(draft)
        try:
            async with asyncio.timeout(_WITHIN_S), self._line(draft, maker) as line:
                result = await line.submit(draft)
        except TimeoutError:
            raise StoreUnavailable(LATE) from None
        if isinstance(result, BridgeError):
            raise result
        return result

    async def send_many(self, drafts: Sequence[Draft], maker: Maker | None = None) -> list[Sent | BridgeError]:
        """Sends each draft independently. Returns for each draft its result or its error, in order. Drafts that replace
        or extend a message are sent after all others. `maker`: a client with a limited number of topics; None: no
        limit."""
        plain = [at for at, draft in enumerate(drafts) if draft.if_exists not in _CHANGING]
        results: dict[int, Sent | BridgeError] = {}
        for at, sent in zip(plain, await self._sending.send_many([drafts[at] for at in plain], maker), strict=True):
            results[at] = sent if isinstance(sent, BridgeError) else _judged(drafts[at], sent)
        if len(plain) < len(drafts):
            room = asyncio.Semaphore(_AT_ONCE)

            async def one(at: int) -> None:
                async with room:
                    try:
                        results[at] = await self.send(drafts[at], maker)
                    except BridgeError as error:
                        results[at] = error

            async with asyncio.TaskGroup() as sending:
                for at in range(len(drafts)):
                    if at not in results:
                        sending.create_task(one(at))
        return [results[at] for at in range(len(drafts))]

    async def finish(self) -> None:
        """Waits until no send that replaces or extends a message is under way."""
        for line, _ in list(self._lines.values()):
            await line.finish()

    async def _check(self, draft: Draft) -> None:
        await self._sending.check(draft)
        if draft.deliver_at_ms is not None and draft.max_wait_ms is not None:
            delay_ms = draft.deliver_at_ms - self._store.clock.now_ms()
            if delay_ms > draft.max_wait_ms:
                message = f"must be at least the {delay_ms:.0f} ms until deliver_at"
                raise InvalidRequest.of("max_wait", draft.max_wait_ms, int(delay_ms), message)

    @asynccontextmanager
    async def _line(self, draft: Draft, maker: Maker | None) -> AsyncIterator[_Line]:
        """Yields the line in which sends of one id wait. Sends of another token wait in another line. The line exists
        as long as a send waits in it."""
        key = (draft.topic, draft.id, None if maker is None else maker.token_id)
        line, waiting = self._lines.get(key) or (self._new_line(maker), 0)
        self._lines[key] = line, waiting + 1
        try:
            yield line
        finally:
            _, waiting = self._lines[key]
            if waiting > 1:
                self._lines[key] = line, waiting - 1
            else:
                del self._lines[key]

    def _new_line(self, maker: Maker | None) -> _Line:
        async def commit(drafts: list[Draft]) -> list[Sent | BridgeError]:
            results: list[Sent | BridgeError] = []
            for _, run in groupby(drafts, key=lambda draft: draft.if_exists):
                results += await self._together(list(run), maker)
            return results

        return GroupCommit(commit, most=_TOGETHER, at_once=1)

    async def _together(self, drafts: list[Draft], maker: Maker | None) -> list[Sent | BridgeError]:
        """Carries out sends of one id, which came in this order. All of them replace the message, or all extend it."""
        extends = drafts[0].if_exists is IfExists.EXTEND
        try:
            sent = await (self._extending.put(drafts, maker) if extends else self._replacing.put(drafts[-1], maker))
        except Unpublishable as error:  # it concerns the last draft alone
            return [*(await self._together(drafts[:-1], maker)), error] if len(drafts) > 1 else [error]
        except BridgeError as error:
            return [error] * len(drafts)
        return [sent, *([sent if sent.replayed else replace(sent, changed=True)] * (len(drafts) - 1))]


def accepted(draft: Draft, sent: Sent) -> Sent:
    """Checks that the message which a send found under its id answers the send, and returns `sent` then. Pure.

    Raises:
        InvalidRequest: the message has other content, and `if_exists` is `SAME`.
        Conflict: `if_exists` is `ERROR`, and the send is no repeated try of an unanswered send.
    """
    kept, state = sent.message.envelope, sent.message.record.state.label
    other = other_field(kept, draft.envelope)
    if draft.if_exists is IfExists.SAME and other is not None:
        raise InvalidRequest.of(
            other,
            _shown(draft.envelope, other),
            f"the {other} of the message that has this id",
            f"is another than that of the message {draft.id!r}, which is {state}: choose another id, or give if_exists",
        )
    # If no send of the message was answered, this send may be a repeated try of it.
    if draft.if_exists is IfExists.ERROR and not (sent.unanswered and other is None):
        raise Conflict(f"a message has the id {draft.id!r} already: it is {state}", state=state)
    return sent


def _judged(draft: Draft, sent: Sent) -> Sent | BridgeError:
    try:
        return accepted(draft, sent) if sent.replayed else sent
    except BridgeError as error:
        return error


def _shown(envelope: Envelope, field: str) -> str:
    if field == "to":
        return str(envelope.target)
    return envelope.content_type if field == "content_type" else (envelope.body or b"")[:400].decode(errors="replace")
