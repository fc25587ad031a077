"""Lists the routes of the API's port and of the admin port, and says which are operators' actions."""

from __future__ import annotations

from typing import Final

from bridge.http.wires.lmstfy import about, acking, admin, consuming, names, publishing, queues
from bridge.http.wires.lmstfy.ports import AdminRoute, ApiRoute
from bridge.http.wires.lmstfy.throttle import throttled
from bridge.model.action import ActionName

_QUEUE: Final = "/api/:namespace/:queue"
_JOB: Final = f"{_QUEUE}/job/:job_id"
_DEAD: Final = f"{_QUEUE}/deadletter"
_TOKEN: Final = "/token/:namespace/:token"
_LIMIT: Final = f"{_TOKEN}/limit"

API: Final = (
    ApiRoute("PUT", _QUEUE, throttled("produce", publishing.publish)),
    ApiRoute("PUT", f"{_QUEUE}/bulk", throttled("produce", publishing.publish_bulk)),
    ApiRoute("PUT", _JOB, publishing.republish),
    ApiRoute("GET", _QUEUE, throttled("consume", consuming.consume), check_names=names.check_queues),
    ApiRoute("DELETE", _JOB, acking.ack),
    ApiRoute("GET", f"{_QUEUE}/peek", queues.peek),
    ApiRoute("GET", _JOB, queues.peek_job),
    ApiRoute("GET", f"{_QUEUE}/size", queues.size, needs_token=False),
    ApiRoute("GET", f"{_DEAD}/size", queues.dead_letter_size, needs_token=False),
    ApiRoute("GET", _DEAD, queues.peek_dead_letter),
    ApiRoute("PUT", _DEAD, queues.respawn_dead_letters, what=ActionName.REPLAY_MANY),
    ApiRoute("DELETE", _DEAD, queues.delete_dead_letters, what=ActionName.DROP_MANY),
    ApiRoute("DELETE", _QUEUE, queues.destroy, what=ActionName.EMPTY_READY),
)

ADMIN: Final = (
    AdminRoute("GET", "/info", about.info, needs_account=False),
    AdminRoute("GET", "/version", about.versions, needs_account=False),
    AdminRoute("GET", "/metrics", about.metrics, needs_account=False),
    AdminRoute("GET", "/pools", about.pools, needs_account=False),
    AdminRoute("GET", "/limits", admin.list_limits),
    AdminRoute("GET", "/token/:namespace", admin.list_tokens),
    AdminRoute("POST", "/token/:namespace", admin.new_token, what=ActionName.LMSTFY_TOKEN_CREATE),
    AdminRoute("DELETE", _TOKEN, admin.delete_token, what=ActionName.LMSTFY_TOKEN_DELETE),
    AdminRoute("GET", _LIMIT, admin.get_limit),
    AdminRoute("POST", _LIMIT, admin.add_limit, what=ActionName.LMSTFY_LIMIT_PUT),
    AdminRoute("PUT", _LIMIT, admin.put_limit, what=ActionName.LMSTFY_LIMIT_PUT),
    AdminRoute("DELETE", _LIMIT, admin.delete_limit, what=ActionName.LMSTFY_LIMIT_DELETE),
    AdminRoute("*", "/debug/pprof/*profile", about.profiles, needs_account=False),
    AdminRoute("GET", "/accesslog", about.access_log, needs_account=False),
    AdminRoute("POST", "/accesslog", about.set_access_log, what=ActionName.LMSTFY_ACCESS_LOG),
)
