"""Makes a `Bulk` of a caller's request for many messages, and refuses impossible requests. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, NamedTuple

from bridge.model.bulk import Bulk, BulkAction
from bridge.model.errors import InvalidRequest
from bridge.model.filter import Filter
from bridge.model.message import State
from bridge.model.reach import Reach
from bridge.service.horizon import check_horizon


class Moment(NamedTuple):
    """The due moment that a caller asks for: a delay from the start of the action, or an instant in Unix ms. If both
    are None, the due moment is the start of the action."""

    delay_ms: int | None = None
    deliver_at_ms: int | None = None


NO_MOMENT: Final = Moment()
_EVERYTHING: Final = Filter()


def bulk_of(
    action: BulkAction, wanted: Filter, reach: Reach, *, began_ms: int, moment: Moment = NO_MOMENT, most: int | None
) -> Bulk:
    """Returns the action on the messages that match `wanted`. `reach`: the topics that the caller may use. `began_ms`:
    when the action began, in Unix ms. `moment`: the new due moment. `most`: change only the first `most` messages, by
    due moment; None: all.

    Raises:
        InvalidRequest: the filter is empty, it asks for states that the action can't change, or the messages would be
            due beyond the longest delay.
    """
    if wanted == _EVERYTHING:
        raise InvalidRequest.of(
            "topic",
            None,
            "at least one field of the filter",
            'is required where nothing else is given; "*" is all topics',
        )
    due_ms = began_ms
    if moment.deliver_at_ms is not None:
        due_ms = max(began_ms, moment.deliver_at_ms)
        check_horizon("deliver_at", moment.deliver_at_ms, due_ms - began_ms)
    elif moment.delay_ms is not None:
        due_ms += moment.delay_ms
        check_horizon("delay", moment.delay_ms, due_ms - began_ms)
    states = _states(action, wanted)
    return Bulk(
        action=action,
        filter=replace(wanted, states=states),
        reach=reach,
        began_ms=began_ms,
        due_ms=due_ms,
        most=most,
    )


def _states(action: BulkAction, wanted: Filter) -> tuple[State, ...]:
    taken = [state.label for state in action.takes]
    if refused := [state.label for state in wanted.states if state not in action.takes]:
        raise InvalidRequest.of(
            "state", refused, taken, f"{action} can't take {', '.join(refused)} messages; it takes {', '.join(taken)}"
        )
    chosen = tuple(state for state in action.takes if state in wanted.wanted_states)
    if not chosen:
        raise InvalidRequest.of(
            "reason" if wanted.reason is not None else "reason_pattern",
            wanted.reason_pattern if wanted.reason is None else wanted.reason,
            taken,
            f"is that of expired and dead messages: give the states too, {', '.join(taken)}",
        )
    return chosen
