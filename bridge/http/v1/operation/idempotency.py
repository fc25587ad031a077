"""Gives a request that repeats an `Idempotency-Key` the answer to the first request with that key (IETF draft
draft-ietf-httpapi-idempotency-key-header).

A key belongs to one token, one operation and one topic. The kept answer is compressed with the request as dictionary,
because most answers repeat most of their request. An answer that promises nothing, such as 503, is not kept.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from bridge.http import off_loop, problems
from bridge.http.v1.operation.call import ApiCall
from bridge.http.v1.operation.operation import HeaderDoc, Operation
from bridge.model.errors import BridgeError, InvalidRequest
from bridge.service.sending.repeats import FIELD

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

Run = Callable[["Pools", ApiCall], Awaitable[Response]]

LONGEST: Final = 255
_HEADER: Final = FIELD.lower().encode()
_QUOTED: Final = re.compile(r'"((?:[ !#-\[\]-~]|\\["\\])+)"')
_BARE: Final = re.compile(r"[!#-~]+")
_ESCAPED: Final = re.compile(r'\\(["\\])')
_WINDOW_BITS: Final = -15
_DICTIONARY: Final = 32 * 1024  # the most that deflate looks back
_CONFLICT: Final = 409
_REPLAYED: Final = (b"idempotent-replay", b"true")
_LEFT_OUT: Final = frozenset((b"content-length", _REPLAYED[0]))

DOC: Final = HeaderDoc(
    name=FIELD,
    description="A text that you choose for this request, such as a UUID. Repeat the request with it if you got no "
    "answer, or 503. A repeated request gets the answer to the first one",
    example='"8e03978e-40d5-43e8-bc93-6894a57f9324"',
    longest=LONGEST + 2,
)


def key_in(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Returns a request's idempotency key without quotes; None: the request has no key. `headers`: the request's
    headers.

    Raises:
        InvalidRequest: the key is malformed, empty, longer than 255 characters, or given twice.
    """
    given = [value for name, value in headers if name == _HEADER]
    if not given:
        return None
    text = b", ".join(given).decode("latin-1").strip()
    quoted = _QUOTED.fullmatch(text)
    key = _ESCAPED.sub(r"\1", quoted[1]) if quoted else text if _BARE.fullmatch(text) else ""
    if len(given) > 1 or not 0 < len(key) <= LONGEST:
        form = f'must be one text of 1-{LONGEST} printable ASCII characters, in quotes: "8e03978e-40d5"'
        raise InvalidRequest.of(FIELD, text, LONGEST, form)
    return key


def answered_once(operation: Operation, run: Run) -> Run:
    """Returns a handler that calls `run`. If the operation takes idempotency keys, a request with a known key gets the
    kept answer instead, without a call of `run`."""
    if not operation.is_keyed:
        return run

    async def run_once(pools: Pools, call: ApiCall) -> Response:
        key = key_in(call.scope["headers"])
        return await run(pools, call) if key is None else await _answer_once(operation, run, pools, call, key)

    return run_once


async def _answer_once(operation: Operation, run: Run, pools: Pools, call: ApiCall, key: str) -> Response:
    scope, pool = [operation.what], pools.default
    if operation.of_topic:
        scope, pool = [operation.what, call.topic], pools.serving(call.topic)
    document = await call.document()
    begun = await pool.repeats.begin(call.caller.who, scope, key, document)
    if isinstance(begun, bytes):
        return await off_loop.parsed(partial(_unpacked, dictionary=document), begun)
    call.tried = begun
    try:
        answer = await run(pools, call)
    except InvalidRequest:
        await begun.forget()
        raise
    except BridgeError as error:
        answer = problems.answer(Request(call.scope), error)
        if answer.status_code != _CONFLICT:
            await begun.release()
            raise
    except Exception:
        await begun.release()
        raise
    if call.is_final:
        await begun.keep(await off_loop.parsed(partial(_packed, answer, document), bytes(answer.body)))
    else:
        await begun.release()
    return answer


def _packed(answer: Response, dictionary: bytes, body: bytes) -> bytes:
    headers = [[name.decode(), value.decode()] for name, value in answer.raw_headers if name not in _LEFT_OUT]
    deflate = zlib.compressobj(wbits=_WINDOW_BITS, zdict=dictionary[-_DICTIONARY:])
    return deflate.compress(orjson.dumps([answer.status_code, headers]) + b"\n" + body) + deflate.flush()


def _unpacked(packed: bytes, dictionary: bytes) -> Response:
    head, _, body = zlib.decompressobj(_WINDOW_BITS, dictionary[-_DICTIONARY:]).decompress(packed).partition(b"\n")
    status, headers = orjson.loads(head)
    answer = Response(body, status)
    written = [(name.encode(), value.encode()) for name, value in headers]
    answer.raw_headers = [*written, _REPLAYED, (b"content-length", b"%d" % len(body))]
    return answer
