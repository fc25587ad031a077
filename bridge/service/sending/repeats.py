"""Keeps the answer to a request with an idempotency key, and returns this answer when the client repeats the request.

    begin ──> do the work ──> keep the answer
      │ answered                │ nothing was promised
      v                         v
    the kept answer           release: the next try does the work

A process may die after the work and before it keeps the answer. The next try must then find out whether the work was
done. Redis tells it when the first try began. A message without an id gets an id that is computed from the key. So the
next try finds the message that the first try sent, even if that message has ended.
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
    """Begins the requests with an idempotency key of one pool, and returns the kept answers of repeated ones."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._answers = StoredAnswers(
            context.store, context.records.keys, kept_ms=settings.idempotency_kept, most=settings.idempotency_keys
        )

    async def begin(self, who: str, scope: Sequence[str], key: str, document: bytes) -> Try | bytes:
        """Begins a try of a request, and returns it. If the request was answered before, returns the kept answer, in
        bytes.

        Args:
            who: the id of the caller's token, or a word for a caller without a token. Each caller has its own keys.
            scope: names the operation that the key is for. In another scope, an equal key is another key.
            key: the idempotency key.
            document: the body of the request.

        Raises:
            InvalidRequest: the key belongs to a request with another body.
            RequestUnderWay: another try of the request has not ended.
            StoreUnavailable: Redis did not answer.
        """
        key_id, holder = digest_of_request("\n".join((*scope, key)).encode()), token_bytes(8)
        begun = await self._answers.begin(who, key_id, digest_of_request(document), holder)
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


def digest_of_request(text: bytes) -> bytes:
    """Returns a digest of 16 bytes, for a key with its scope or for a request's body."""
    return blake2b(text, digest_size=16).digest()


class Try:
    """One try of a request with an idempotency key. `began_ms`: when the first try began, in Unix ms by Redis' clock;
    None: this is the first try."""

    def __init__(self, answers: StoredAnswers, who: str, key_id: bytes, holder: bytes, *, began_ms: int | None) -> None:
        self.began_ms = began_ms
        self._answers = answers
        self._who = who
        self._key_id = key_id
        self._holder = holder

    def named(self, draft: Draft, at: int = 0) -> Draft:
        """Returns the draft with an id. If the draft has none, computes the id from the idempotency key. `at`: the
        index of the draft in the request."""
        if draft.id is not None:
            return draft
        owner = blake2b(self._who.encode(), key=self._key_id, digest_size=15).hexdigest()
        return replace(draft, id=f"{_ID}{owner}-{at}")

    def sent_before(self, draft: Draft, message: Message | None) -> bool:
        """Whether an earlier try has sent the draft. `message`: the message under the draft's id; None: there is none.
        An earlier try has sent this message if its content equals the draft's, and it was not created before the first
        try began."""
        if message is None or self.began_ms is None or message.record.created_ms < self.began_ms:
            return False
        return other_field(message.envelope, draft.envelope) is None

    async def keep(self, answer: bytes) -> None:
        """Keeps the answer for later tries. If Redis does not answer, the next try does the work again."""
        with suppress(StoreUnavailable):
            await self._answers.end(self._who, self._key_id, self._holder, answer=answer)

    async def release(self) -> None:
        """Ends the try and keeps no answer, because nothing was promised to the client. Another try with the
        idempotency key can begin at once."""
        with suppress(StoreUnavailable):
            await self._answers.end(self._who, self._key_id, self._holder)

    async def forget(self) -> None:
        """Frees the idempotency key of a refused request, so a corrected request can use it."""
        with suppress(StoreUnavailable):
            await self._answers.end(self._who, self._key_id, self._holder, forgets=True)
