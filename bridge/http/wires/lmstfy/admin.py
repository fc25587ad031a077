"""Answers the admin port's calls on tokens and their limits."""

from __future__ import annotations

from typing import Any, Final

import orjson
from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import Refusal, answer, document, indented, nothing
from bridge.http.wires.lmstfy.grants import parse_token
from bridge.http.wires.lmstfy.job_ids import new_request_id
from bridge.http.wires.lmstfy.names import LONGEST, is_name
from bridge.http.wires.lmstfy.parameters import pairs
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.lmstfy import LmstfyToken, TokenLimit
from bridge.settings.pools import DEFAULT

_SHORTEST_TOKEN: Final = 20
_LARGEST_BYTES: Final = 64 * 1024
_FIELDS: Final = ("read", "write", "interval")


async def list_tokens(request: WireRequest) -> Response:
    pool = request.query.values.get("pool", "")
    _check_pool(request, pool)
    tokens = await request.wire.service_of(pool).lmstfy.tokens(pool or DEFAULT, request.namespace)
    named = {f"{pool}:{token}" if pool else token: description for token, description in tokens.items()}
    return indented(200, {"tokens": named})


async def new_token(request: WireRequest) -> Response:
    given = {**request.query.values, **await _form(request)}
    description, secret, namespace = given.get("description", ""), given.get("token", ""), request.namespace
    if not description:
        raise Refusal(400, error="invalid description")
    if 0 < len(secret.encode()) < _SHORTEST_TOKEN:
        raise Refusal(400, error="the user token was too short")
    if len(namespace.encode()) > LONGEST:
        raise Refusal(400, error="the namespace name was too long")
    if not is_name(namespace):
        raise Refusal(400, error="namespace name contains forbidden characters")
    pool = request.query.values.get("pool", "")
    if secret.count(":") == 1:
        pool, _, secret = secret.partition(":")
    secret = secret or new_request_id()
    _check_pool(request, pool)
    token = LmstfyToken(pool or DEFAULT, namespace, secret)
    if not await request.wire.service_of(pool).lmstfy.add_token(token, description):
        raise Refusal(400, error="the token has already existed")
    return indented(201, {"token": f"{pool}:{secret}" if pool else secret})


async def delete_token(request: WireRequest) -> Response:
    token = _token(request)
    records = request.wire.service_of(token.pool).lmstfy
    await records.remove_token(token)
    await records.remove_limit(token)
    request.wire.grants.forget(token)
    return nothing()


async def list_limits(request: WireRequest) -> Response:
    """Lists the rate limits of all tokens. Reads them from Redis each time, so the parameter `force_update` has no
    effect."""
    return document(
        200,
        [
            {
                "namespace": token.namespace,
                "token": token.secret if token.pool == DEFAULT else f"{token.pool}:{token.secret}",
                "limiter": limit,
            }
            for pool in request.wire.pool_names()
            for token, limit in await request.wire.service_of(pool).lmstfy.limits()
        ],
    )


async def get_limit(request: WireRequest) -> Response:
    token = _token(request)
    limit = await request.wire.service_of(token.pool).lmstfy.limit(token)
    return document(404 if limit is None else 200, limit)


async def add_limit(request: WireRequest) -> Response:
    token, limit = _token(request), await _limit(request)
    if not await request.wire.service_of(token.pool).lmstfy.add_limit(token, limit):
        raise Refusal(500, error=f"throttler token({token.secret}) has already exists")
    request.wire.grants.forget(token)
    return answer(201, limiter=limit)


async def put_limit(request: WireRequest) -> Response:
    token, limit = _token(request), await _limit(request)
    await request.wire.service_of(token.pool).lmstfy.put_limit(token, limit)
    request.wire.grants.forget(token)
    return answer(200, limiter=limit)


async def delete_limit(request: WireRequest) -> Response:
    token = _token(request)
    await request.wire.service_of(token.pool).lmstfy.remove_limit(token)
    request.wire.grants.forget(token)
    return answer(200, msg="success")


async def _limit(request: WireRequest) -> TokenLimit:
    """Reads the limit from the request's body.

    Raises:
        Refusal: the body is too large or no JSON object, or a member is wrong.
    """
    try:
        given = orjson.loads(await request.body(_LARGEST_BYTES, "body too large"))
        values = [given.get(name, 0) for name in _FIELDS]
    except (ValueError, AttributeError):
        raise Refusal(400, error="the limiter should be a JSON object") from None
    if not all(_is_int64(value) for value in values):
        raise Refusal(400, error="read, write and interval should be whole numbers")
    limit = TokenLimit(**dict(zip(_FIELDS, values, strict=True)))
    if limit.read == limit.write == 0:
        raise Refusal(400, limiter=limit)
    if limit.interval <= 0:
        raise Refusal(400, error="interval should be > 0")
    return limit


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _token(request: WireRequest) -> LmstfyToken:
    """Returns the token that the path names.

    Raises:
        Refusal: the token's pool does not exist.
    """
    pool, secret = parse_token(request.params["token"])
    _check_pool(request, pool)
    return LmstfyToken(pool, request.namespace, secret)


def _check_pool(request: WireRequest, pool: str) -> None:
    if not request.wire.has_pool(pool):
        raise Refusal(400, error="the pool was not exists")


async def _form(request: WireRequest) -> dict[str, str]:
    content_type = request.header("content-type").partition(";")[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        return {}
    body = await request.body(_LARGEST_BYTES, "body too large")
    return dict(reversed([*pairs(body.decode(errors="replace"))]))
