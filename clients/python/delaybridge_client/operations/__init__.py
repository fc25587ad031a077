"""Describes the bridge's HTTP calls as `Operation` values, without I/O: one function for each operation of the OpenAPI
document, with its name.

Each function is also a method of `Client` and `SyncClient`, which makes the call. `client.every` takes the operation
itself: `client.every(list_messages("orders"))`.
"""

from delaybridge_client.operations.bulk import (
    cancel_operation,
    delete_many,
    list_operations,
    look_at_operation,
    move_many,
    replay_matching,
    run_many_now,
)
from delaybridge_client.operations.consuming import ack, ack_many, extend, nack, pull, pull_by_priority
from delaybridge_client.operations.dead import drop, drop_many, list_dead, replay, replay_many
from delaybridge_client.operations.health import live, metrics, ready
from delaybridge_client.operations.messages import delete, list_messages, look_at_timeline, look_up, move, search
from delaybridge_client.operations.operators import (
    close_session,
    list_actions,
    list_slots,
    look_at_session,
    open_session,
    overview,
)
from delaybridge_client.operations.schedules import (
    backfill_schedule,
    list_schedules,
    look_at_schedule,
    next_ticks,
    pause_schedule,
    put_schedule,
    remove_schedule,
    resume_schedule,
    trigger_schedule,
)
from delaybridge_client.operations.sending import send, send_many
from delaybridge_client.operations.subscriptions import (
    list_subscriptions,
    look_at_subscription,
    subscribe,
    unsubscribe,
)
from delaybridge_client.operations.topics import (
    list_topics,
    look_at_topic,
    patch_policy,
    pause,
    put_policy,
    remove_topic,
    resume,
)

__all__ = [
    "ack",
    "ack_many",
    "backfill_schedule",
    "cancel_operation",
    "close_session",
    "delete",
    "delete_many",
    "drop",
    "drop_many",
    "extend",
    "list_actions",
    "list_dead",
    "list_messages",
    "list_operations",
    "list_schedules",
    "list_slots",
    "list_subscriptions",
    "list_topics",
    "live",
    "look_at_operation",
    "look_at_schedule",
    "look_at_session",
    "look_at_subscription",
    "look_at_timeline",
    "look_at_topic",
    "look_up",
    "metrics",
    "move",
    "move_many",
    "nack",
    "next_ticks",
    "open_session",
    "overview",
    "patch_policy",
    "pause",
    "pause_schedule",
    "pull",
    "pull_by_priority",
    "put_policy",
    "put_schedule",
    "ready",
    "remove_schedule",
    "remove_topic",
    "replay",
    "replay_many",
    "replay_matching",
    "resume",
    "resume_schedule",
    "run_many_now",
    "search",
    "send",
    "send_many",
    "subscribe",
    "trigger_schedule",
    "unsubscribe",
]
