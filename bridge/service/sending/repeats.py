"""Gives a request that is repeated with an idempotency key the answer to the first one.

    begin ──> do the work ──> keep the answer
      │ answered                │ nothing was promised
      v                         v
    the kept answer           release: the next try does the work

A process may die between the work and the keeping. The next try is then told that an earlier one has begun, and when.
A message without an id gets one that follows from the key, and so the next try finds the message, also after its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from hashlib import blake2b
from secrets import token_bytes
from typing import Final

from bridge.model.errors import InvalidRequest, RequestUnderWay, StoreUnavailable
from bridge.model.message import Message
from bridge.model.values import Draft
from bridge.service.context import Context
from bridge.service.sending.same_content import other_field
from bridge.store.kept.answers import Progress, StoredAnswers

FIELD: Final = "Idempotency-Key"
_ID: Final = "key-"


class Repeats:
    """The requests with an idempotency key, of one pool."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._answers = StoredAnswers(
            context.store, context.records.keys, kept_ms=settings.idempotency_kept, most=settings.idempotency_keys
        )

    async def begin(self, who: str, scope: Sequence[str], key: str, document: bytes) -> Try | bytes:
        """Begins a try of a request. Returns the answer if there is one.

        Args:
            who: whose key it is.
            scope: what the key is for; the same key in another scope is another key.
            document: the body of the request.

        Raises:
            InvalidRequest: the key belongs to a request with another body.
            RequestUnderWay: another try of the request has not ended.
            StoreUnavailable
        """
        key_id, holder = digest("\n".join((*scope, key)).encode()), token_bytes(8)
        begun = await self._answers.begin(who, key_id, digest(document), holder)
        match begun.progress:
            case Progress.ANSWERED:
                return begun.answer
            case Progress.OTHER:
                message = "was given with another request body before: choose another key, or repeat that request"
                raise InvalidRequest.of(FIELD, key, "one request body", message)
            case Progress.UNDER_WAY:
                raise RequestUnderWay(f"a request with the key {key!r} is under way: try again in a second")
        again_ms = begun.moment_ms if begun.progress is Progress.AGAIN else None
        return Try(self._answers, who, key_id, holder, began_ms=again_ms)


def digest(text: bytes) -> bytes:
    """Returns what stands for a key in its scope, and for the body of its request."""
    return blake2b(text, digest_size=16).digest()


class Try:
    """One try of a request with a key. `began_ms`: when an earlier try began, of which nobody has had an answer; None:
    this is the first one."""

    def __init__(self, answers: StoredAnswers, who: str, key_id: bytes, holder: bytes, *, began_ms: int | None) -> None:
        self.began_ms = began_ms
        self._answers = answers
        self._who = who
        self._key_id = key_id
        self._holder = holder

    def named(self, draft: Draft, at: int = 0) -> Draft:
        """The draft with an id. `at`: its place in the request."""
        if draft.id is not None:
            return draft
        owner = blake2b(self._who.encode(), key=self._key_id, digest_size=15).hexdigest()
        return replace(draft, id=f"{_ID}{owner}-{at}")

    def sent_before(self, draft: Draft, message: Message | None) -> bool:
        """Whether an earlier try has sent the draft: the message has its id and body, and was created since."""
        if message is None or self.began_ms is None or message.record.created_ms < self.began_ms:
            return False
        return other_field(message.envelope, draft.envelope) is None

    async def keep(self, answer: bytes) -> None:
        """Keeps the answer. If Redis does not answer, the next try does the work."""
        with suppress(StoreUnavailable):
            await self._answers.end(self._who, self._key_id, self._holder, answer=answer)

    async def release(self) -> None:
        """Lets the next try begin: nothing was promised."""
        with suppress(StoreUnavailable):
            await self._answers.end(self._who, self._key_id, self._holder)

    async def forget(self) -> None:
        """Frees the key: nothing was done, and the request can't be done as it is."""
        with suppress(StoreUnavailable):
            await self._answers.end(self._who, self._key_id, self._holder, forgets=True)
