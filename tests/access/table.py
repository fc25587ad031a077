"""Lists the scope that each operation needs. A new operation fails the tests until it has a line here."""

from __future__ import annotations

NOTHING = ""
NEEDS = {
    "send": "send",
    "send_many": "send",
    "move": "send",
    "delete": "send",
    "pull": "consume",
    "pull_by_priority": "consume",
    "ack_many": "consume",
    "ack": "consume",
    "nack": "consume",
    "extend": "consume",
    "look_up": "look",
    "look_at_timeline": "look",
    "list_messages": "look",
    "list_dead": "look",
    "search": "look",
    "list_topics": "look",
    "look_at_topic": "look",
    "list_schedules": "look",
    "look_at_schedule": "look",
    "next_ticks": "look",
    "list_operations": "look",
    "look_at_operation": "look",
    "metrics": "look",
    "overview": "look",
    "list_slots": "look",
    "open_session": "look",
    "look_at_session": "look",
    "close_session": "look",
    "replay": "admin",
    "replay_many": "admin",
    "drop": "admin",
    "drop_many": "admin",
    "put_policy": "admin",
    "patch_policy": "admin",
    "pause": "admin",
    "resume": "admin",
    "remove_topic": "admin",
    "put_schedule": "admin",
    "remove_schedule": "admin",
    "pause_schedule": "admin",
    "resume_schedule": "admin",
    "trigger_schedule": "admin",
    "backfill_schedule": "admin",
    "subscribe": "admin",
    "list_subscriptions": "admin",
    "look_at_subscription": "admin",
    "list_actions": "admin",
    "delete_many": "admin",
    "move_many": "admin",
    "run_many_now": "admin",
    "replay_matching": "admin",
    "cancel_operation": "admin",
    "unsubscribe": "admin",
    "live": NOTHING,
    "ready": NOTHING,
}
NEEDS_TOO = {"put_schedule": "send"}
"""A second scope that an operation needs for the topic in its body."""

CAMELLIA_NEEDS = {
    "POST /camellia/delayQueue/sendMsg": "send",
    "POST /camellia/delayQueue/deleteMsg": "send",
    "POST /camellia/delayQueue/pullMsg": "consume",
    "POST /camellia/delayQueue/longPollingMsg": "consume",
    "POST /camellia/delayQueue/ackMsg": "consume",
    "POST /camellia/delayQueue/getMsg": "look",
    "GET /camellia/delayQueue/getTopicInfo": "look",
    "GET /camellia/delayQueue/getTopicInfoList": "look",
    "GET /camellia/delayQueue/getMonitorData": "look",
    "GET /camellia/delayQueue/getMonitorString": "look",
    "GET /camellia/health/online": "admin",
    "GET /camellia/health/offline": "admin",
    "GET /camellia/health/status": NOTHING,
    "GET /camellia/health/check": NOTHING,
}
SCOPES = ("look", "send", "consume", "admin")


def allowed(need: str, scope: str) -> bool:
    return need in {scope, "look", NOTHING}
