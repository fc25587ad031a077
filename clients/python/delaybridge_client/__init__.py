"""Sends messages to a delaybridge for later, looks after them, and consumes them."""

from delaybridge_client import operations
from delaybridge_client.client import Client, SyncClient
from delaybridge_client.consumer import Consumer, Counts, Delivery, Late
from delaybridge_client.encode import UNSET
from delaybridge_client.errors import (
    BodyNotKept,
    BridgeFailed,
    BrokenRequest,
    Conflict,
    DelaybridgeError,
    FieldError,
    Forbidden,
    InvalidArgument,
    InvalidRequest,
    LeaseEnded,
    NotFound,
    PreconditionFailed,
    Problem,
    RequestUnderWay,
    TooLarge,
    TooManyRequests,
    TopicNotEmpty,
    Unanswered,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from delaybridge_client.operation import Operation
from delaybridge_client.retries import Retries
from delaybridge_client.values.bulk import BulkOperation, BulkResult
from delaybridge_client.values.message import (
    AckResult,
    Filter,
    LeasedMessage,
    Message,
    NewMessage,
    SendResult,
    SentMessage,
    State,
    Target,
    Timeline,
    Transition,
)
from delaybridge_client.values.page import Page
from delaybridge_client.values.schedule import Backfilled, Schedule, ScheduledMessage, Tick
from delaybridge_client.values.subscription import Subscription
from delaybridge_client.values.topic import Backoff, Policy, Topic
from delaybridge_client.webhooks import Callback, RefusedCallback, Webhook

__all__ = [
    "UNSET",
    "AckResult",
    "Backfilled",
    "Backoff",
    "BodyNotKept",
    "BridgeFailed",
    "BrokenRequest",
    "BulkOperation",
    "BulkResult",
    "Callback",
    "Client",
    "Conflict",
    "Consumer",
    "Counts",
    "DelaybridgeError",
    "Delivery",
    "FieldError",
    "Filter",
    "Forbidden",
    "InvalidArgument",
    "InvalidRequest",
    "Late",
    "LeaseEnded",
    "LeasedMessage",
    "Message",
    "NewMessage",
    "NotFound",
    "Operation",
    "Page",
    "Policy",
    "PreconditionFailed",
    "Problem",
    "RefusedCallback",
    "RequestUnderWay",
    "Retries",
    "Schedule",
    "ScheduledMessage",
    "SendResult",
    "SentMessage",
    "State",
    "Subscription",
    "SyncClient",
    "Target",
    "Tick",
    "Timeline",
    "TooLarge",
    "TooManyRequests",
    "Topic",
    "TopicNotEmpty",
    "Transition",
    "Unanswered",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Webhook",
    "operations",
]
