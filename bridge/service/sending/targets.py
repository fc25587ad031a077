"""Refuses a target that is the default exchange or one of the bridge's own exchanges."""

from __future__ import annotations

from bridge.broker.declared.declared import Declared
from bridge.model.errors import InvalidRequest
from bridge.model.message import Target


def check_target(declared: Declared, target: Target | None, field: str = "to.exchange") -> None:
    """Checks that due messages may go to the target. `target` None: they go to the topic's ready queue. `field`: the
    name of the target's field in the request.

    Raises:
        InvalidRequest: the target is the default exchange or one of the bridge's own.
    """
    if target is not None and not declared.may_be_target(target.exchange):
        raise InvalidRequest.of(
            field,
            target.exchange,
            "an exchange of another application",
            "must be neither the default exchange nor one of the bridge's own: they would bypass the delay",
        )
