"""What can go wrong between the plan and the broker.

TopologyError
 +- TopologyConflict    an object stands with other arguments; arguments of a live queue can not be changed
 +- TopologyMissing     what was to be bound does not stand, or what it was to be bound to
 +- BrokerUnsuitable    the broker is too old, broken, or lacks what the promises need
"""


class TopologyError(Exception):
    """The broker refused a part of the topology."""


class TopologyMissing(TopologyError):
    """One end of a binding does not stand."""


class TopologyConflict(TopologyError):
    """`name` stands with other properties than the plan's.

    `argument`, `found` and `required` are as the broker's text says them, None where it does not. The way out is a
    new prefix, and `topology drain` for what waits under the old one.
    """

    def __init__(self, *, name: str, argument: str | None, found: str | None, required: str | None, said: str) -> None:
        self.name = name
        self.argument = argument
        self.found = found
        self.required = required
        self.said = said
        differs = f"{argument} is {found}, {required} is required" if argument else said
        super().__init__(f"{name} stands with other arguments: {differs}")


class BrokerUnsuitable(TopologyError):
    """The broker can not keep the promises: `what` was `found` where `required` is needed."""

    def __init__(self, *, what: str, found: str, required: str) -> None:
        self.what = what
        self.found = found
        self.required = required
        super().__init__(f"unsuitable broker: {what} is {found}, required is {required}")
