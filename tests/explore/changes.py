"""Says what one event makes of a state. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from bridge.broker.publications import Publication, Route, parked_ms
from bridge.loops.checkpoint.verdicts import ADOPT_AFTER_ASKED
from bridge.model.message import Message
from bridge.model.values import Leased, Sent
from bridge.service.pulling.leasing import AHEAD_PARKED_MS
from tests.explore.names import result_name, task_name
from tests.explore.processes import Ended, Process
from tests.explore.state import (
    DEAD,
    READY,
    WHEEL,
    Carried,
    Fate,
    Lease,
    Placed,
    Receipt,
    State,
    Task,
    with_one,
    without,
)

_RETRY_MS: Final = 500  # until a checkpoint asks again that got no answer

Next = tuple[str, State]
"""What happened, and the state after it."""


def placed(state: State, publication: Publication) -> Placed:
    """Returns where a published copy is. A copy about which the checkpoint asks again each second, for a minute, is
    asked about once more, at the end of the minute."""
    copy = Carried.of(publication.copy)
    match publication.route:
        case Route.READY:
            lives_ms = publication.live_for_ms
            return Placed(READY, copy, state.now_ms + lives_ms if lives_ms else 0)
        case Route.DEAD:
            return Placed(DEAD, copy)
        case Route.WHEEL:
            stays_ms = parked_ms(publication.left_ms, exact=publication.exact)
            if 0 < copy.asked < ADOPT_AFTER_ASKED:
                stays_ms += (ADOPT_AFTER_ASKED - copy.asked) * AHEAD_PARKED_MS
                copy = copy._replace(asked=ADOPT_AFTER_ASKED)
            return Placed(WHEEL, copy, state.now_ms + stays_ms, publication.kind, stays_ms)
        case _:
            raise ValueError(publication.route)


def ended(state: State, task: Task, end: Ended) -> Iterator[Next]:
    """Yields the states after an operation has ended. A process that has settled a message may be the one that keeps
    the message's delivery, or another one."""
    what = f"{task_name(task)} ends with {result_name(end.result)}"
    state = state._replace(tasks=without(state.tasks, task))
    process, result = end.process, end.result
    if task.taken is not None:
        if process.lease is not None:
            copy, until_ms = process.lease
            lease = Lease(task.taken, Carried.of(copy), task.began_ms, until_ms)
            state = state._replace(leases=with_one(state.leases, lease))
        elif not process.is_acked:
            state = state._replace(copies=with_one(state.copies, _left(state, task, process)))
    if task.lease is not None and not process.is_acked:
        state = state._replace(leases=with_one(state.leases, task.lease))
    if task.operation == "record an ack" and task.taken is not None:
        state = with_over(state, task.taken.copy.created_ms, "consumed")
    match result:
        case Leased():
            receipt = Receipt(result.message.record.id, result.receipt)
            state = state._replace(receipts=with_one(state.receipts, receipt))
        case Sent() if not result.replayed or not result.message.record.state.ended:
            state = _accepted(state, result.message)
        case Message() if task.operation == "replace":
            state = _accepted(state, result)
        case _:
            pass
    yield what, state
    for record in process.settled:
        for lease in state.leases:
            of_it = lease.copy.created_ms == record.created_ms and lease.copy.id == record.id
            if of_it and record.epoch >= lease.copy.epoch + (not record.state.ended):
                yield f"{what}, as the process that leased it", state._replace(leases=without(state.leases, lease))


def _left(state: State, task: Task, process: Process) -> Placed:
    """The delivery of an operation that has not acknowledged it."""
    taken = task.taken
    if taken is None:
        raise LookupError("the task has no delivery")
    if task.operation != "arrive":
        return taken
    return taken._replace(at_ms=process.held_until_ms or state.now_ms + _RETRY_MS)


def died(state: State, task: Task) -> State:
    state = state._replace(tasks=without(state.tasks, task))
    back = task.taken if task.lease is None else task.lease.delivery
    return state if back is None else state._replace(copies=with_one(state.copies, back))


def answered(state: State, task: Task, answer: Any) -> State:
    further = task._replace(history=(*task.history, (state.now_ms, answer)))
    return state._replace(tasks=with_task(without(state.tasks, task), further))


def with_task(tasks: tuple[Task, ...], task: Task) -> tuple[Task, ...]:
    return tuple(sorted((*tasks, task), key=repr)) if tasks else (task,)


def begun_once_more(state: State, at: int) -> State:
    begun = [*state.begun]
    begun[at] += 1
    return state._replace(begun=tuple(begun))


def with_fault(state: State) -> State:
    return state._replace(faults=state.faults - 1)


def _accepted(state: State, message: Message) -> State:
    fates = dict(state.fates)
    created_ms = message.record.created_ms
    fates[created_ms] = fates.get(created_ms, Fate())._replace(accepted=True)
    return state._replace(fates=tuple(sorted(fates.items())))


def with_over(state: State, created_ms: int, why: str) -> State:
    fates = dict(state.fates)
    fates[created_ms] = fates.get(created_ms, Fate())._replace(over=why)
    return state._replace(fates=tuple(sorted(fates.items())))


def distinct(state: State, place: str) -> list[Placed]:
    return [*dict.fromkeys(one for one in state.copies if one.place == place)]
