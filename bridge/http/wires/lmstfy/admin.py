"""The admin port's calls on tokens and their limits."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import parse_qsl

import orjson
from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import Refusal, answer, document, indented, nothing
from bridge.http.wires.lmstfy.job_ids import new_request_id
from bridge.http.wires.lmstfy.names import LONGEST, is_name
from bridge.http.wires.lmstfy.pools import parse_token
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.settings.pools import DEFAULT
from bridge.store.lmstfy import Holder, Limit

_SHORTEST_TOKEN: Final = 20
_LARGEST_BYTES: Final = 64 * 1024
_FIELDS: Final = ("read", "write", "interval")


async def list_tokens(exchange: LmstfyRequest) -> Response:
    pool = exchange.query.values.get("pool", "")
    _check_pool(exchange, pool)
    tokens = await exchange.wire.kept(pool or DEFAULT).tokens(pool or DEFAULT, exchange.namespace)
    named = {f"{pool}:{token}" if pool else token: description for token, description in tokens.items()}
    return indented(200, {"tokens": named})


async def new_token(exchange: LmstfyRequest) -> Response:
    given = {**exchange.query.values, **await _form(exchange)}
    description, token, namespace = given.get("description", ""), given.get("token", ""), exchange.namespace
    if not description:
        raise Refusal(400, error="invalid description")
    if 0 < len(token.encode()) < _SHORTEST_TOKEN:
        raise Refusal(400, error="the user token was too short")
    if len(namespace.encode()) > LONGEST:
        raise Refusal(400, error="the namespace name was too long")
    if not is_name(namespace):
        raise Refusal(400, error="namespace name contains forbidden characters")
    pool = exchange.query.values.get("pool", "")
    if token.count(":") == 1:
        pool, _, token = token.partition(":")
    token = token or new_request_id()
    _check_pool(exchange, pool)
    holder = Holder(pool or DEFAULT, namespace, token)
    if not await exchange.wire.kept(holder.pool).add_token(holder, description):
        raise Refusal(400, error="the token has already existed")
    return indented(201, {"token": f"{pool}:{token}" if pool else token})


async def delete_token(exchange: LmstfyRequest) -> Response:
    holder = _holder(exchange)
    _check_pool(exchange, holder.pool)
    kept = exchange.wire.kept(holder.pool)
    await kept.remove_token(holder)
    await kept.remove_limit(holder)
    exchange.wire.grants.forget(holder)
    return nothing()


async def list_limits(exchange: LmstfyRequest) -> Response:
    """As they are in Redis, so there is nothing for `force_update` to do."""
    return document(
        200,
        [
            {
                "namespace": holder.namespace,
                "token": holder.token if holder.pool == DEFAULT else f"{holder.pool}:{holder.token}",
                "limiter": limit,
            }
            for pool in exchange.wire.pools.names()
            for holder, limit in await exchange.wire.kept(pool).limits()
        ],
    )


async def get_limit(exchange: LmstfyRequest) -> Response:
    holder = _limited(exchange)
    limit = await exchange.wire.kept(holder.pool).limit(holder)
    return document(404 if limit is None else 200, limit)


async def add_limit(exchange: LmstfyRequest) -> Response:
    holder, limit = _limited(exchange), await _limit(exchange)
    if not await exchange.wire.kept(holder.pool).add_limit(holder, limit):
        raise Refusal(500, error=f"throttler token({holder.token}) has already exists")
    exchange.wire.grants.forget(holder)
    return answer(201, limiter=limit)


async def put_limit(exchange: LmstfyRequest) -> Response:
    holder, limit = _limited(exchange), await _limit(exchange)
    await exchange.wire.kept(holder.pool).put_limit(holder, limit)
    exchange.wire.grants.forget(holder)
    return answer(200, limiter=limit)


async def delete_limit(exchange: LmstfyRequest) -> Response:
    holder = _limited(exchange)
    await exchange.wire.kept(holder.pool).remove_limit(holder)
    exchange.wire.grants.forget(holder)
    return answer(200, msg="success")


async def _limit(exchange: LmstfyRequest) -> Limit:
    try:
        given = orjson.loads(await exchange.body(_LARGEST_BYTES, "body too large"))
        values = [given.get(name, 0) for name in _FIELDS]
    except (ValueError, AttributeError):
        raise Refusal(400, error="the limiter should be a JSON object") from None
    if not all(_is_int64(value) for value in values):
        raise Refusal(400, error="read, write and interval should be whole numbers")
    limit = Limit(**dict(zip(_FIELDS, values, strict=True)))
    if limit.read == limit.write == 0:
        raise Refusal(400, limiter=limit)
    if limit.interval <= 0:
        raise Refusal(400, error="interval should be > 0")
    return limit


def _is_int64(value: Any) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


def _holder(exchange: LmstfyRequest) -> Holder:
    pool, token = parse_token(exchange.params["token"])
    return Holder(pool, exchange.namespace, token)


def _limited(exchange: LmstfyRequest) -> Holder:
    holder = _holder(exchange)
    _check_pool(exchange, holder.pool)
    return holder


def _check_pool(exchange: LmstfyRequest, pool: str) -> None:
    if exchange.wire.pools.of(pool) is None:
        raise Refusal(400, error="the pool was not exists")


async def _form(exchange: LmstfyRequest) -> dict[str, str]:
    content_type = exchange.header("content-type").partition(";")[0].strip().lower()
    if content_type != "application/x-www-form-urlencoded":
        return {}
    body = await exchange.body(_LARGEST_BYTES, "body too large")
    return dict(reversed(parse_qsl(body.decode(errors="replace"), keep_blank_values=True)))
