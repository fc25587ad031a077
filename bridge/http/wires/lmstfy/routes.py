"""Which paths there are on the API's port and on the admin port, and what a request goes through on its way."""

from __future__ import annotations

from typing import Final

from bridge.http.wires.lmstfy import about, acking, admin, consuming, names, publishing, queues
from bridge.http.wires.lmstfy.basic_auth import check_account
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.http.wires.lmstfy.router import Route
from bridge.http.wires.lmstfy.throttle import throttled
from bridge.http.wires.lmstfy.tokens import check_token, find_pool


async def _check_names(exchange: LmstfyRequest) -> None:
    names.check(exchange.namespace, exchange.queue)


async def _check_queues(exchange: LmstfyRequest) -> None:
    names.check_queues(exchange.namespace, exchange.queue)


_ANYBODY: Final = (_check_names, find_pool)
_OWNER: Final = (*_ANYBODY, check_token)
_CONSUMER: Final = (_check_queues, find_pool, check_token)
_ADMIN: Final = (check_account,)

_QUEUE: Final = "/api/:namespace/:queue"
_JOB: Final = f"{_QUEUE}/job/:job_id"
_DEAD: Final = f"{_QUEUE}/deadletter"
_TOKEN: Final = "/token/:namespace/:token"
_LIMIT: Final = f"{_TOKEN}/limit"

API: Final = (
    Route("PUT", _QUEUE, throttled("produce", publishing.publish), _OWNER),
    Route("PUT", f"{_QUEUE}/bulk", throttled("produce", publishing.publish_bulk), _OWNER),
    Route("PUT", _JOB, publishing.republish, _OWNER),
    Route("GET", _QUEUE, throttled("consume", consuming.consume), _CONSUMER),
    Route("DELETE", _JOB, acking.ack, _OWNER),
    Route("GET", f"{_QUEUE}/peek", queues.peek, _OWNER),
    Route("GET", _JOB, queues.peek_job, _OWNER),
    Route("GET", f"{_QUEUE}/size", queues.size, _ANYBODY),
    Route("GET", f"{_DEAD}/size", queues.dead_letter_size, _ANYBODY),
    Route("GET", _DEAD, queues.peek_dead_letter, _OWNER),
    Route("PUT", _DEAD, queues.respawn_dead_letter, _OWNER),
    Route("DELETE", _DEAD, queues.delete_dead_letter, _OWNER),
    Route("DELETE", _QUEUE, queues.destroy, _OWNER),
)

ADMIN: Final = (
    Route("GET", "/info", about.info),
    Route("GET", "/version", about.versions),
    Route("GET", "/metrics", about.metrics),
    Route("GET", "/pools", about.pools),
    Route("GET", "/limits", admin.list_limits, _ADMIN),
    Route("GET", "/token/:namespace", admin.list_tokens, _ADMIN),
    Route("POST", "/token/:namespace", admin.new_token, _ADMIN),
    Route("DELETE", _TOKEN, admin.delete_token, _ADMIN),
    Route("GET", _LIMIT, admin.get_limit, _ADMIN),
    Route("POST", _LIMIT, admin.add_limit, _ADMIN),
    Route("PUT", _LIMIT, admin.put_limit, _ADMIN),
    Route("DELETE", _LIMIT, admin.delete_limit, _ADMIN),
    Route("*", "/debug/pprof/*profile", about.profiles),
    Route("GET", "/accesslog", about.access_log),
    Route("POST", "/accesslog", about.set_access_log, _ADMIN),
)
