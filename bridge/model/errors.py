"""Everything the bridge can refuse or fail with, as one tree.

    BridgeError
    ├── InvalidRequest        the caller's input is wrong; names field, value and limit
    ├── NotFound              nothing is known under this name
    ├── Conflict              the message or topic is in a state that forbids the call
    │   ├── BodyNotKept       the call needs the body, and it was not kept in Redis
    │   ├── LeaseEnded        the receipt is of a lease that has ended
    │   └── TopicNotEmpty     a topic with messages is removed only by force
    └── Unavailable           nothing was promised: send again, with the same id
        ├── StoreUnavailable  Redis did not answer, or not in time
        │   └── StoreUnfit    what is in this Redis was kept with another number of buckets
        ├── BrokerUnavailable RabbitMQ did not answer, not in time, or blocks publishers
        │   ├── BrokerUnfit   the promises can't be kept on this RabbitMQ
        │   ├── QueueMissing  a queue that was asked for messages does not stand
        │   ├── Unpublishable a message has no form in AMQP, or its headers fit no frame
        │   └── Unroutable    RabbitMQ returned a message: the queue it was for is missing
        └── SendUnderWay      another send of the same id has not ended yet

Errors of redis-py, aio-pika and aiormq are translated where the bridge calls them (`store/client.py`,
`broker/link.py`) and never seen further out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class FieldError:
    """One thing wrong with one field: its name, the value given, the limit it broke, and a sentence."""

    field: str
    value: Any
    limit: Any
    message: str


class BridgeError(Exception):
    """The root of the tree; its text is meant for the caller."""


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
    """Carries the state that stands in the way, where there is one."""

    def __init__(self, message: str, *, state: str | None = None) -> None:
        super().__init__(message)
        self.state = state


class BodyNotKept(Conflict):
    pass


class LeaseEnded(Conflict):
    pass


class TopicNotEmpty(Conflict):
    pass


class Unavailable(BridgeError):
    """Carries how long a caller should wait before it tries again, in whole seconds. `partly`: it is one of several
    Redis servers, and others answer."""

    retry_after_s = 1
    partly = False


class StoreUnavailable(Unavailable):
    def __init__(self, message: str, *, partly: bool = False) -> None:
        super().__init__(message)
        self.partly = partly


class StoreUnfit(StoreUnavailable):
    pass


class BrokerUnavailable(Unavailable):
    pass


class BrokerUnfit(BrokerUnavailable):
    pass


class QueueMissing(BrokerUnavailable):
    pass


class Unpublishable(BrokerUnavailable):
    pass


class Unroutable(BrokerUnavailable):
    pass


class SendUnderWay(Unavailable):
    pass
