"""Defines the errors that several layers of the bridge use, as one tree. Other modules derive further errors.

    BridgeError
    ├── WrongSettings         settings are unknown, or their values are wrong: the process does not start
    ├── InvalidRequest        the caller's input is wrong; names field, value and limit
    ├── NotFound              no topic, message, schedule or other thing has this name or id
    ├── Conflict              the state of the message or topic forbids the call
    │   ├── BodyNotKept       the call needs the body, and Redis does not hold it
    │   ├── LeaseEnded        the receipt belongs to a lease that has ended
    │   ├── RequestUnderWay   another request with the idempotency key has not ended
    │   ├── NotAsSeen         the message may have changed since the caller has seen it
    │   ├── Releasing         the message is due within milliseconds, and is being released
    │   └── TopicNotEmpty     a topic with messages can only be removed by force
    └── Unavailable           the bridge promised nothing: send again, with the same id
        ├── TooManyUnread     clients have left too many bytes of answers unread
        ├── StoreUnavailable  Redis did not answer in time, or can't take writes
        │   ├── StoreRefused  Redis answered with an error code
        │   └── StoreUnfit    this Redis holds an index with another number of buckets
        ├── BrokerUnavailable RabbitMQ did not answer in time, or blocks publishers
        │   ├── BrokerUnfit   this RabbitMQ can't keep the promises of the bridge
        │   ├── QueueMissing  a queue to take messages from does not exist
        │   └── NotPublished  RabbitMQ certainly does not have the message
        │       ├── Undeclarable  RabbitMQ refuses a topic's queue until somebody changes a right or a limit
        │       ├── Unpublishable AMQP can't hold a message, or RabbitMQ will never take it
        │       └── Unroutable    RabbitMQ returned a message because no queue takes it
        │           └── ExchangeRefused the exchange is missing, or the bridge's user may not publish to it
        ├── UnnamedVerdict    this version does not know a script's verdict; nothing is acknowledged or dropped
        ├── SendUnderWay      another send of the same id has not ended yet
        └── Stopping          the process stops before it can end the call

The bridge translates the errors of redis-py and of AMQP where it speaks with servers (`store/client.py`,
`store/servers/refusals.py`, `broker/client/connection.py`). No other module sees them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldError:
    """One fault of one field: the field's name, the given value, the limit that it broke, and a message."""

    field: str
    value: Any
    limit: Any
    message: str


class BridgeError(Exception):
    """The base class of the bridge's errors. Its text is written for the caller."""


class WrongSettings(BridgeError):
    """Settings are unknown, or their values are wrong. `complaints`: one line for each fault."""

    def __init__(self, complaints: Sequence[str]) -> None:
        super().__init__("\n".join(complaints))
        self.complaints = complaints


class InvalidRequest(BridgeError):
    def __init__(self, *errors: FieldError) -> None:
        super().__init__("; ".join(f"{error.field}: {error.message}" for error in errors))
        self.errors = errors

    @classmethod
    def of(cls, field: str, value: Any, limit: Any, message: str) -> InvalidRequest:
        return cls(FieldError(field=field, value=value, limit=limit, message=message))


class NotFound(BridgeError):
    pass


class Conflict(BridgeError):
    """The present state forbids the call: the state of the message, topic or schedule, an equal call under way, or a
    limit that is reached. `state`: the message's state, if this state forbids the call; else None."""

    def __init__(self, message: str, *, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class BodyNotKept(Conflict):
    pass


class LeaseEnded(Conflict):
    pass


class RequestUnderWay(Conflict):
    retry_after_s = 1


class NotAsSeen(Conflict):
    pass


class Releasing(Conflict):
    """The message is due within milliseconds, and the checkpoint has already asked Redis whether to release it.
    `left_ms`: milliseconds until the due moment."""

    def __init__(self, message: str, *, state: str, left_ms: int) -> None:
        super().__init__(message, state=state)
        self.left_ms = left_ms


class TopicNotEmpty(Conflict):
    pass


class Unavailable(BridgeError):
    """The bridge can't do the call now. The call may have taken effect or not, unless its method says more.
    `retry_after_s`: how many seconds the caller should wait before it tries again. `partly`: the call's Redis server is
    away or unknown, and another one may answer."""

    retry_after_s = 1
    partly = False


class TooManyUnread(Unavailable):
    """The process holds as many bytes of answers as it may, because clients have not read them."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(
            f"answers that clients have not read hold all {limit_bytes} bytes that BRIDGE_MAX_BUFFERED allows, so pulls"
            " and pages are refused: try again in a second"
        )


class StoreUnavailable(Unavailable):
    def __init__(self, message: str, *, partly: bool = False) -> None:
        super().__init__(message)
        self.partly = partly


class StoreRefused(StoreUnavailable):
    """Redis answered with an error. `code`: its error code, such as READONLY. `is_fault`: neither Redis' state nor its
    settings explain the refusal, so the bridge may be wrong."""

    def __init__(self, message: str, *, code: str, is_fault: bool = False, partly: bool = False) -> None:
        super().__init__(message, partly=partly)
        self.code = code
        self.is_fault = is_fault


class StoreUnfit(StoreUnavailable):
    pass


class BrokerUnavailable(Unavailable):
    pass


class BrokerUnfit(BrokerUnavailable):
    pass


class QueueMissing(BrokerUnavailable):
    pass


class NotPublished(BrokerUnavailable):
    pass


class Undeclarable(NotPublished):
    pass


class Unpublishable(NotPublished):
    pass


class Unroutable(NotPublished):
    pass


class ExchangeRefused(Unroutable):
    """RabbitMQ refused a publish to an exchange. `missing`: the exchange does not exist. False: the bridge's user may
    not publish to the exchange or with the routing key."""

    def __init__(self, message: str, *, missing: bool) -> None:
        super().__init__(message)
        self.missing = missing


class UnnamedVerdict(Unavailable):
    pass


class SendUnderWay(Unavailable):
    pass


class Stopping(Unavailable):
    def __init__(self) -> None:
        super().__init__("the bridge is stopping; try again")
