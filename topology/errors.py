"""Defines the errors of work on the broker: connecting, and declaring, comparing or deleting objects of the topology.

TopologyError
├── TopologyConflict    an object exists with other arguments; arguments of an existing queue can't be changed
├── TopologyBarred      a queue of an earlier version exists; until it is deleted, nothing may be declared
├── TopologyMissing     the source or the destination of a binding does not exist
├── ConnectionFailed    the broker refused a connection, or a call over it
│   ├── LoginRefused    the broker does not know the user, or the password is wrong
│   └── VhostRefused    the virtual host does not exist, or the user has no rights in it
├── ManagementRefused   the management API refused a change
└── BrokerUnsuitable    the broker is too old, is a broken version, or lacks a capability
"""


class TopologyError(Exception):
    """The broker refused a part of the topology. The subclasses name further failures of work on the broker."""


class ConnectionFailed(TopologyError):
    """The broker refused a connection, or a call over it."""


class LoginRefused(ConnectionFailed):
    """The broker does not know the user, or the password is wrong."""


class VhostRefused(ConnectionFailed):
    """The virtual host does not exist, or the user has no rights in it. AMQP does not tell these two causes apart."""


class ManagementRefused(TopologyError):
    """The management API refused a change."""


class TopologyMissing(TopologyError):
    """The source or the destination of a binding does not exist."""


class TopologyConflict(TopologyError):
    """The object `name` exists with other properties than the plan's. `argument`: a property that differs. `found`: its
    value on the broker. `required`: its value in the plan.

    The last three come from the broker's text; each is None if the text lacks it. An operator can take a new prefix,
    and move the messages of the old prefix with `delaybridge topology drain`.
    """

    def __init__(self, *, name: str, argument: str | None, found: str | None, required: str | None, text: str) -> None:
        self.name = name
        self.argument = argument
        self.found = found
        self.required = required
        self.text = text
        difference = f"{argument} is {found}; it must be {required}" if argument else text
        super().__init__(
            f"{name} exists with other arguments: {difference}."
            " Choose another prefix and move the messages with `delaybridge topology drain`"
        )


class TopologyBarred(TopologyError):
    """The queue `name` of an earlier version exists. If this version's wheel were declared beside it, each message
    would wait twice."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"the queue {name} of an earlier version exists, whose slots had other names. Each message would wait in a"
            " slot of both versions. Stop the bridges of that version, and move its messages to another prefix with"
            " `delaybridge topology drain` of this version"
        )


class BrokerUnsuitable(TopologyError):
    """The broker can't keep the promises: its property `what` is `found` and must be `required`."""

    def __init__(self, *, what: str, found: str, required: str) -> None:
        self.what = what
        self.found = found
        self.required = required
        super().__init__(f"this broker can't be used: its {what} is {found}; it must be {required}")
