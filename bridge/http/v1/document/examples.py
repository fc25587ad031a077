"""Holds the examples of the OpenAPI document: requests, answers and problems."""

from __future__ import annotations

from typing import Any

from msgspec import to_builtins

from bridge.access.errors import NOT_VALID, InvalidToken, NotAllowed, TooManyRequests
from bridge.access.token import Scope
from bridge.http import problems
from bridge.http.errors import BrokenJSON, EncodedBody, TooLarge
from bridge.model.errors import Conflict, FieldError, InvalidRequest, NotAsSeen, NotFound, StoreUnavailable
from bridge.model.values import MAX_DELAY_MS

_REQUEST_ID = "5f0c9a7d1e3b48266a1d0f27"

SEND = {"id": "o-1001", "body": {"order": 1001}, "delay": "15m", "max_retry": 3, "labels": {"customer": "42"}}
SENDS = {
    "in fifteen minutes": SEND,
    "at an instant": {"body": {"order": 1002}, "deliver_at": "2026-12-24T18:00:00+01:00"},
    "now, as text with a header": {"body": "hello", "content_type": "text/plain", "headers": {"tenant": "t-7"}},
    "bytes in base64, with a time to live": {
        "body_base64": "AAECAw==",
        "content_type": "application/octet-stream",
        "delay": 1500,
        "ttl": "1d",
    },
    "to an exchange of another application": {
        "body": {"order": 1003},
        "delay": "1h",
        "to": {"exchange": "shop", "routing_key": "orders.paid"},
    },
    "in place of the message that has the id": SEND | {"if_exists": "replace"},
    "debounced: five seconds after the last send, a minute after the first at most": {
        "id": "index-42",
        "body": {"document": 42},
        "delay": "5s",
        "if_exists": "extend",
        "max_wait": "1m",
    },
}
CHANGES = {
    "in an hour": {"delay": "1h"},
    "at a moment": {"deliver_at": "2026-12-01T10:00:00Z"},
    "now": {"delay": 0},
    "another body, due in ten minutes, with an hour to live": {"body": {"order": 1002}, "delay": "10m", "ttl": "1h"},
}
MESSAGE: dict[str, Any] = {
    "topic": "orders",
    "id": "o-1001",
    "state": "waiting",
    "body": {"order": 1001},
    "content_type": "application/json",
    "headers": {},
    "labels": {"customer": "42"},
    "to": None,
    "created_at": "2026-12-01T09:00:00.000Z",
    "due_at": "2026-12-01T09:15:00.000Z",
    "expires_at": None,
    "attempts": 0,
    "max_retry": 3,
    "lease_until": None,
    "ended_at": None,
    "reason": None,
}
LEASED = MESSAGE | {"state": "leased", "attempts": 1, "lease_until": "2026-12-01T09:15:30.000Z"}
RECEIPT = "Mi0xZjBjNTVhYTAwYjcuby0xMDAx"
EARLIER_RECEIPT = "Mi05MGQ0ZTE3YTMyYzUuby0xMDAw"
ACKED = LEASED | {"state": "acked", "lease_until": None, "ended_at": "2026-12-01T09:15:02.000Z"}
DELETED = MESSAGE | {"state": "deleted", "ended_at": "2026-12-01T09:05:00.000Z"}
MOVED = MESSAGE | {"due_at": "2026-12-01T10:00:00.000Z"}
DEAD = MESSAGE | {"state": "dead", "attempts": 4, "ended_at": "2026-12-01T09:20:00.000Z", "reason": "card refused"}
_STEP: dict[str, Any] = {
    "at": "2026-12-01T09:00:00.000Z",
    "what": "sent",
    "attempt": 0,
    "slot": None,
    "late_ms": None,
    "token_id": None,
    "reason": None,
}
TIMELINE: dict[str, Any] = {
    "items": [
        _STEP | {"slot": "delay.000d-00h-14m", "token_id": "0f4c19a2b7de"},
        _STEP | {"at": "2026-12-01T09:15:00.001Z", "what": "released", "late_ms": 1},
        _STEP | {"at": "2026-12-01T09:15:00.040Z", "what": "leased", "attempt": 1, "token_id": "c2a9d04e6b18"},
        _STEP | {"at": "2026-12-01T09:15:02.000Z", "what": "acked", "attempt": 1, "token_id": "c2a9d04e6b18"},
    ],
    "complete": True,
    "topic": "orders",
    "id": "o-1001",
}
ETAG = '"5b1e6f0c9a7d1e3b48266a1d"'
CURSOR = "MTc5NjExNTYwMDAwMC5vLTEwMDE"
PLACE = "MTc5NjExNTYwMDAwMCBvcmRlcnMgby0xMDAx"
POLICY: dict[str, Any] = {
    "release": "checked",
    "max_retry": 5,
    "ttl_ms": 86_400_000,
    "lease_ms": 60_000,
    "backoff": {"first_ms": 1_000, "factor": 2.0, "max_ms": 600_000},
    "paused": False,
    "keep_body_max": None,
}
POLICIES = {
    "growing back-off": {
        "max_retry": 5,
        "ttl": "1d",
        "lease": "60s",
        "backoff": {"first": "1s", "factor": 2, "max": "10m"},
    },
    "back-off in steps": {"backoff": ["5s", "1m", "15m"]},
    "no back-off": {"backoff": [0]},
    "without the checkpoint": {"release": "direct"},
    "bodies up to 256 KiB in Redis": {"keep_body_max": 262_144},
}
POLICY_PATCHES = {
    "another lease, and the default time to live": {"lease": "2m", "ttl": None},
    "a longer back-off": {"backoff": {"max": "1h"}},
}
PAUSED = POLICY | {"paused": True}
TOPIC: dict[str, Any] = {
    "topic": "orders",
    "counts": {"waiting": 120, "ready": 2, "leased": 1, "acked": 48, "expired": 0, "dead": 1, "deleted": 3},
    "overdue": 0,
    "waiting_by_due": {
        "1m": 20, "10m": 60, "30m": 30, "1h": 10, "6h": 0, "1d": 0, "7d": 0, "30d": 0, "beyond": 0,
    },
    "lateness_ms": {"p50": 1.4, "p90": 3.1, "p99": 9.8, "max": 14.0},
    "policy": POLICY,
    "effective": {
        **{name: POLICY[name] for name in ("max_retry", "ttl_ms", "lease_ms", "backoff")},
        "jitter": 0.0,
        "defaults": [],
    },
    "queues": {"ready": "ready.orders", "dead": "dead.orders"},
}  # fmt: skip

SUBSCRIPTIONS = {
    "every field": {
        "url": "https://hooks.example.com/orders",
        "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=",
        "concurrency": 20,
        "timeout": "10s",
        "backoff": ["5s", "1m", "15m"],
    },
    "two secrets, while receivers change": {
        "url": "https://hooks.example.com/orders",
        "secret": [
            "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=",
            "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=",
        ],
    },
}
SUBSCRIPTION: dict[str, Any] = {
    "topic": "orders",
    "url": "https://hooks.example.com/orders",
    "secrets": 1,
    "concurrency": 20,
    "timeout_ms": 10_000,
    "backoff": {"steps_ms": [5_000, 60_000, 900_000]},
    "created_at": "2026-12-01T09:00:00.000Z",
    "state": "active",
    "held_ms": 0,
    "ended_at": None,
    "delivered": 48,
    "failed": 1,
    "last_delivered_at": "2026-12-01T09:15:00.042Z",
    "last_failure": {
        "at": "2026-12-01T09:10:10.000Z",
        "id": "o-1000",
        "reason": "status",
        "detail": "answered 500",
    },
}

ACTION: dict[str, Any] = {
    "at": "2026-12-01T09:30:00.000Z",
    "what": "replay_many",
    "who": "0f4c19a2b7de",
    "name": "on-call",
    "topic": "orders",
    "target": None,
    "count": 12,
    "done": True,
    "request_id": _REQUEST_ID,
}

SESSION: dict[str, Any] = {
    "token_required": True,
    "token_id": "0f4c19a2b7de",
    "name": "on-call",
    "scopes": ["look", "send", "admin"],
    "every_topic": True,
    "namespaces": [],
    "bare_topics": False,
    "ends_at": "2026-12-01T21:00:00.000Z",
}
NO_SESSION = SESSION | {
    "token_required": False,
    "token_id": None,
    "name": None,
    "scopes": ["look", "send", "consume", "admin"],
    "ends_at": None,
}

SCHEDULES = {
    "every night at three in Vienna": {
        "cron": "0 3 * * *",
        "timezone": "Europe/Vienna",
        "topic": "reports",
        "message": {"body": {"kind": "nightly"}, "max_retry": 5},
        "jitter": "10m",
    },
    "every 90 seconds, one at a time": {
        "every": "90s",
        "topic": "orders",
        "message": {"body": "sync", "content_type": "text/plain", "ttl": "90s", "to": {"exchange": "shop"}},
        "missed": "skip",
        "overlap": "skip",
    },
    "on weekdays until the end of the year, none left out": {
        "cron": "*/30 8-18 * * MON-FRI",
        "end": "2026-12-31T23:59:59Z",
        "topic": "orders",
        "message": {"body": {"check": "stock"}, "labels": {"origin": "schedule"}},
        "missed": "all",
        "missed_max": 500,
    },
}
SCHEDULE: dict[str, Any] = {
    "name": "nightly-report",
    "topic": "reports",
    "state": "active",
    "cron": "0 3 * * *",
    "timezone": "Europe/Vienna",
    "every_ms": None,
    "anchor": None,
    "start": None,
    "end": None,
    "jitter_ms": 0,
    "missed": "last",
    "missed_max": 100,
    "overlap": "allow",
    "message": {
        "body": {"kind": "nightly"},
        "content_type": "application/json",
        "headers": {},
        "ttl_ms": None,
        "max_retry": 5,
        "labels": {},
        "to": None,
    },
    "next": [
        {"at": f"2026-12-{day:02}T02:00:00.000Z", "due_at": f"2026-12-{day:02}T02:00:00.000Z"} for day in range(2, 7)
    ],
    "last_at": "2026-12-01T02:00:00.000Z",
    "sent": 48,
    "missed_ticks": 0,
    "overlapped": 0,
    "refused": 0,
    "failure": None,
    "created_at": "2026-10-14T09:00:00.000Z",
    "changed_at": "2026-10-14T09:00:00.000Z",
    "token_id": "0f4c19a2b7de",
}
BACKFILLS = {"a month": {"from": "2026-11-01T00:00:00Z", "to": "2026-11-30T23:59:59Z"}}
TICK = MESSAGE | {
    "topic": "reports",
    "id": "nightly-report@2026-12-01T09:00:00.217Z",
    "body": {"kind": "nightly"},
    "labels": {},
    "due_at": "2026-12-01T09:00:00.217Z",
    "created_at": "2026-12-01T09:00:00.217Z",
    "max_retry": 5,
}

OVERVIEW: dict[str, Any] = {
    "at": "2026-12-01T09:00:00.000Z",
    "ok": True,
    "parts": {"broker": "ok", "store": "ok", "checkpoint": "ok", "acks": "ok", "audit": "ok", "watch": "ok"},
    "findings": [],
    "missing": [],
    "topics": 1,
    "paused": 0,
    "counts": {"waiting": 1_200, "ready": 3, "leased": 2, "dead": 1},
    "due": {
        "overdue": 0,
        "minute": [2, 1, 0, 3, 0, 0, 1, 0, 2, 0, 0, 1],
        "hour": [40, 30, 20, 10, 10, 10, 10, 10, 10, 10, 20, 20],
        "day": [400, 100, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50],
        "later": 200,
    },
    "oldest_overdue_ms": 0,
    "oldest_ready_ms": 850,
    "rates": {"accepted": 12.5, "released": 11.5, "delivered": 11.5, "acked": 11.0, "dead": 0.0},
    "lateness": {"released": 690, "late": 0, "p50_ms": 3.0, "p99_ms": 7.5, "over_s": 60.1},
    "queues": {"checkpoint": 0, "acks": 0, "refused": 0},
    "worst": [
        {
            "topic": "orders",
            "overdue": 0,
            "oldest_overdue_ms": 0,
            "ready": 3,
            "oldest_ready_ms": 850,
            "dead": 1,
            "paused": False,
        }
    ],
    "queues_pages": {"": "http://127.0.0.1:15672/#/queues/%2F/"},
}
SLOTS: dict[str, Any] = {
    "slots": [
        {
            "pool": "default",
            "slot": "delay.000d-00h-30m",
            "wait_ms": 1_800_000,
            "in_rabbitmq": 12,
            "messages": 900,
        }
    ],
    "overdue": 0,
    "soon": 1,
    "in_checkpoint": 0,
}
BULK_OPERATION: dict[str, Any] = {
    "id": "01KBQ5J0G0M8V4Q6W2E9R7T5Y3",
    "action": "delete",
    "filter": {"topic": "orders*", "state": ["waiting"], "due_before": "2026-12-02T00:00:00.000Z"},
    "state": "running",
    "matched": 100_000,
    "done": 41_250,
    "failed": 0,
    "created_at": "2026-12-01T09:30:00.000Z",
    "ended_at": None,
    "token_id": "0f4c19a2b7de",
    "failures": [],
    "reason": None,
}
BULK: dict[str, Any] = {
    "matched": 12,
    "done": 11,
    "failed": 1,
    "dry_run": False,
    "operation": None,
    "failures": [{"topic": "orders", "id": "o-1001", "detail": "the message was changed meanwhile: it is acked"}],
}
BULK_BEGUN = BULK | {"matched": 100_000, "done": 0, "failed": 0, "failures": []}

QUERY: dict[str, Any] = {
    "topic": "orders",
    "state": ["waiting", "ready"],
    "due_after": "2026-12-01T09:00:00Z",
    "due_before": "2026-12-01T10:00:00Z",
    "id_prefix": "o-",
    "label": ["customer:42"],
    "reason": "card refused",
    "reason_pattern": "card*",
    "order": "desc",
    "prefix": "shop/",
    "count": 10,
    "limit": 100,
    "cursor": CURSOR,
    "release": "true",
    "max": 100,
    "force": "true",
}

TOO_LATE = InvalidRequest(
    FieldError(
        field="delay", value="1000d", limit=MAX_DELAY_MS, message=f"must be at most 999 days ({MAX_DELAY_MS} ms)"
    )
)
PROBLEMS: dict[int, dict[str, Any]] = {
    status: to_builtins(problems.problem(error, _REQUEST_ID))
    for status, error in {
        400: BrokenJSON("the body is not valid JSON: unexpected end of data: line 1 column 9 (char 8)"),
        401: InvalidToken(NOT_VALID),
        403: NotAllowed("this token may not use this topic", token_id="0f4c19a2b7de", scope=Scope.SEND),
        404: NotFound("there is no message 'o-1001' in the topic 'orders'"),
        409: Conflict("the message no longer waits: it is acked", state="acked"),
        412: NotAsSeen("the message has another ETag by now: it is waiting; look it up again", state="waiting"),
        413: TooLarge(field="body", size_bytes=2_000_000, limit_bytes=1_048_576),
        415: EncodedBody("gzip"),
        422: TOO_LATE,
        429: TooManyRequests(
            "this token may make 50 requests a second with the scope send: retry after a pause",
            token_id="0f4c19a2b7de",
            wait_ms=20,
        ),
        503: StoreUnavailable("Redis did not answer in time: nothing was promised"),
    }.items()
}
PROBLEMS[500] = to_builtins(problems.internal(_REQUEST_ID))
