"""Says what may happen next in a state: an operation begins, goes on or dies, a copy arrives, the clock goes on.

Every successor is one event away. Faults are events too, of which a path has a limited number: an answer that is lost,
a publish that is refused, a death, a copy that comes twice, and a Redis that loses its data.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final

from bridge.store.messages.records import AHEAD_MS
from tests.explore.changes import (
    Next,
    answered,
    begun_once_more,
    died,
    distinct,
    ended,
    placed,
    with_fault,
    with_over,
    with_task,
)
from tests.explore.names import call_name, copy_name, publication_name, task_name
from tests.explore.operations import TAKES, work
from tests.explore.processes import LOST, REFUSED, Ask, Effect, Ended, Process, Put, Sleep, run
from tests.explore.promises import after_call, after_loss, after_publish
from tests.explore.scenarios import Scenario
from tests.explore.state import (
    BORN_MS,
    READY,
    RETURNED,
    WHEEL,
    Fate,
    Placed,
    State,
    Task,
    with_one,
    without,
)
from tests.explore.stored import ARRIVES, CLAIMED, DUE, EXPIRES, FORGET, LEASE_UNTIL, STATE, Stored

_CALL_LASTS_MS: Final = 12_000  # longer than any call of the services or of the checkpoint lasts
_BEHIND_MS: Final = 60_000  # the most by which the checkpoint is late
_CLAIM_MS: Final = 10_000  # as in schedule.lua
_OVERDUE_MS: Final = 1_000  # as in changing.py
_BORN: Final = frozenset(("send", "send a new id", "replace"))
"""Operations that create messages. Each begins a millisecond later, so no two messages share a moment of creation."""

_SHOWS: Final = frozenset(("ack", "nack", "extend"))
"""Operations that show a receipt."""


@dataclass
class Rules:
    """The rules of one scenario. `stored`: the Redis that runs the scripts."""

    scenario: Scenario
    stored: Stored
    _nonces: dict[Any, int] = field(default_factory=dict)
    _continued: dict[Task, Effect | Ended] = field(default_factory=dict)

    @property
    def first(self) -> State:
        return State(BORN_MS, self.scenario.faults, self.stored.empty, begun=(0,) * (len(self.scenario.calls) + 1))

    def successors(self, state: State) -> Iterator[Next]:
        """Yields all that may happen next. Raises Broken if a promise breaks."""
        return ((what, self._without_the_past(after)) for what, after in self._all(state))

    def _all(self, state: State) -> Iterator[Next]:
        for task in dict.fromkeys(state.tasks):
            yield from self._go_on(state, task)
            if state.faults:
                yield f"{task_name(task)} dies", died(with_fault(state), task)
        if len(state.tasks) < self.scenario.at_once:
            yield from self._begin(state)
        yield from self._events(state)
        if (later := self._later(state)) is not None:
            yield later

    def _without_the_past(self, state: State) -> State:
        """Returns the state without what can't matter any more: receipts that no call will show, and the moments of
        messages that need no further delivery. So more states are equal."""
        if state.receipts:
            calls = zip(self.scenario.calls, state.begun, strict=False)
            if all(begun == call.times for call, begun in calls if call.operation in _SHOWS):
                state = state._replace(receipts=())
        return state._replace(
            fates=tuple(
                (created_ms, Fate(over=fate.over, confirmed=fate.confirmed) if fate.over and not fate.deleted else fate)
                for created_ms, fate in state.fates
            )
        )

    def _begin(self, state: State) -> Iterator[Next]:
        for at, call in enumerate(self.scenario.calls):
            if state.begun[at] == call.times:
                continue
            noted = begun_once_more(state, at)
            if call.operation in TAKES:
                for placed in distinct(state, TAKES[call.operation]):
                    yield from self._first(noted, Task(call.operation, call.args, 0, state.begun[at], taken=placed))
            elif call.operation in _SHOWS:
                for receipt in dict.fromkeys(state.receipts):
                    yield from self._first(noted, Task(call.operation, (receipt, *call.args), 0, state.begun[at]))
            else:
                yield from self._first(noted, Task(call.operation, call.args, 0, state.begun[at]))
        for place in (WHEEL, RETURNED):
            for placed in distinct(state, place):
                if placed.at_ms <= state.now_ms:
                    yield from self._first_of_copy(state, Task("arrive", (), 0, 0, taken=placed))
        for lease in dict.fromkeys(state.leases):
            left = state._replace(leases=without(state.leases, lease))
            yield from self._first_of_copy(left, Task("publish the lease copy", (), 0, 0, lease=lease))

    def _first_of_copy(self, state: State, task: Task) -> Iterator[Next]:
        """Yields the states after the first effect of work for a copy, which may begin any number of times."""
        lately = dict(state.lately)
        number = lately.get(task, 0)
        state = state._replace(lately=frozenset({**lately, task: number + 1}.items()))
        yield from self._first(state, task._replace(number=number))

    def _first(self, state: State, task: Task) -> Iterator[Next]:
        """Yields the states after the first effect of an operation. Before that, the operation has done nothing."""
        if task.operation in _BORN:
            state = self._at(state, state.now_ms + 1)
        task = task._replace(began_ms=state.now_ms)
        if task.taken is not None:
            state = state._replace(copies=without(state.copies, task.taken))
        yield from self._go_on(state._replace(tasks=with_task(state.tasks, task)), task)

    def _go_on(self, state: State, task: Task) -> Iterator[Next]:
        """Yields what may follow from the next effect of a process."""
        match self._continue(task):
            case Ended() as end:
                yield from ended(state, task, end)
            case Ask(calls):
                ran = state
                answers = []
                for call in calls:
                    answer, store = self.stored.run(ran.store, call, state.now_ms)
                    ran = after_call(ran, call, answer, store)
                    answers.append(answer)
                said = map(call_name, calls, answers)
                what = f"{task_name(task)}: {', '.join(said)}"
                yield what, answered(ran, task, tuple(answers))
                if state.faults:
                    yield f"{what}, and the answer is lost", answered(with_fault(ran), task, LOST)
                    yield f"{task_name(task)}: Redis does not get the call", answered(with_fault(state), task, LOST)
            case Put(publications):
                ran = state
                for publication in publications:
                    ran = after_publish(ran, publication)._replace(
                        copies=with_one(ran.copies, placed(state, publication))
                    )
                what = f"{task_name(task)} publishes {', '.join(publication_name(one) for one in publications)}"
                yield what, answered(ran, task, None)
                if state.faults:
                    yield f"{what}, and the confirm is lost", answered(with_fault(ran), task, LOST)
                    yield f"{what}, which is lost", answered(with_fault(state), task, LOST)
                    yield f"{what}, which is refused", answered(with_fault(state), task, REFUSED)
            case Sleep(until_ms):
                if until_ms <= state.now_ms:
                    yield f"{task_name(task)} has waited", answered(state, task, None)
            case effect:
                raise TypeError(effect)

    def _continue(self, task: Task) -> Effect | Ended:
        if (known := self._continued.get(task)) is None:
            process = Process(task.began_ms, self._numbers(task._replace(history=())))
            known = self._continued[task] = run(work(task, process, self.scenario), process, task.history)
        return known

    def _numbers(self, task: Task) -> Iterator[int]:
        """The nonces of a task: the same ones in every run of it."""
        for at in count():
            yield self._nonces.setdefault((task, at), len(self._nonces) + 1)

    def _events(self, state: State) -> Iterator[Next]:
        """What happens without a process of the bridge, or to one that is idle."""
        for one in distinct(state, READY):
            left = state._replace(copies=without(state.copies, one))
            if self.scenario.consumes:
                yield f"a consumer acknowledges {copy_name(one.copy)}", with_over(left, one.copy.created_ms, "consumed")
            if state.begun[-1] < self.scenario.rejects:
                returned = Placed(RETURNED, one.copy, state.now_ms, "rejected")
                yield (
                    f"a consumer rejects {copy_name(one.copy)}",
                    begun_once_more(left, -1)._replace(copies=with_one(left.copies, returned)),
                )
            if 0 < one.at_ms <= state.now_ms:
                returned = Placed(RETURNED, one.copy, state.now_ms, "expired")
                yield f"{copy_name(one.copy)} expires", left._replace(copies=with_one(left.copies, returned))
        if state.replica is not None and state.replica is not state.store:
            kept = self.stored.forget(state.replica, state.now_ms)
            yield "Redis fails over", after_loss(state)._replace(store=kept, replica=None, failed_over=True)
        if not state.faults:
            return
        for one in distinct(state, WHEEL):
            if one.at_ms <= state.now_ms:
                yield (
                    f"{copy_name(one.copy)} comes twice",
                    with_fault(state)._replace(copies=with_one(state.copies, one)),
                )
        for lease in dict.fromkeys(state.leases):
            back = with_fault(state)._replace(
                leases=without(state.leases, lease), copies=with_one(state.copies, lease.delivery)
            )
            yield f"the process that leased {copy_name(lease.copy)} dies", back
        if self.scenario.empties and not state.emptied and state.store.records:
            lost = after_loss(with_fault(state))
            yield "Redis loses its data", lost._replace(store=self.stored.empty, emptied=True)
        if self._may_fall_behind(state):
            yield "the replica of Redis falls behind", with_fault(state)._replace(replica=state.store)

    def _may_fall_behind(self, state: State) -> bool:
        """Whether a replica may hear no more. Not between the claim and the confirmation of a send: after a failover
        another send of the id takes its place, as if the first had failed."""
        records = state.store.records.values()
        is_first = self.scenario.fails_over and not (state.failed_over or state.replica)
        return is_first and bool(records) and all(record[STATE] for record in records)

    def _later(self, state: State) -> Next | None:
        """The clock goes on to the next moment at which something may happen that may not happen now."""
        if self.scenario.instant and not all(isinstance(self._continue(task), Sleep) for task in state.tasks):
            return None
        moments = {one.at_ms for one in state.copies} | {lease.until_ms for lease in state.leases}
        for record in state.store.records.values():
            moments |= {record[DUE] - AHEAD_MS + 2, record[DUE], record[LEASE_UNTIL], record[EXPIRES], record[FORGET]}
            moments.add(record[ARRIVES] + _OVERDUE_MS)
            if record[STATE] == 0 and record[CLAIMED] > 1:
                moments.add(record[CLAIMED] + _CLAIM_MS)
        for task in state.tasks:
            if isinstance(effect := self._continue(task), Sleep):
                moments.add(effect.until_ms)
        later = min((moment for moment in moments if moment > state.now_ms), default=None)
        lasts = [task.began_ms + _CALL_LASTS_MS for task in state.tasks]
        lasts += [lease.since_ms + _CALL_LASTS_MS for lease in state.leases]
        lasts += [one.at_ms + _BEHIND_MS for one in state.copies if one.place in (WHEEL, RETURNED)]
        if later is None or later > min(lasts, default=later):
            return None
        return f"{later - state.now_ms} ms pass", self._at(state, later)

    def _at(self, state: State, now_ms: int) -> State:
        store = self.stored.forget(state.store, now_ms)
        return state._replace(now_ms=now_ms, store=store, lately=frozenset())
