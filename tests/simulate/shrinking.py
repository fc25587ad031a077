"""Makes the plan of a failing simulation smaller, as long as a run still breaks the same promise. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.simulate.plan import Plan, Steps

_EVENT = re.compile(r"^log of .*\bevent=(\S+)")


def kinds(findings: Iterable[str]) -> frozenset[str]:
    """Returns what broke: the promises, and the events of logs, without messages and moments."""
    return frozenset(event[1] if (event := _EVENT.match(one)) else one.partition(" ")[0] for one in findings)


def shrunk(plan: Plan, breaks: Callable[[Plan], bool], *, most_runs: int) -> Plan:
    """Removes faults, then actions of the load, while `breaks` holds. Asks it for so many plans at most.

    First it removes all at once, then halves, then quarters, then single ones: Zeller's delta debugging with one pass a
    size.
    """
    left = most_runs

    def may_be(smaller: Plan) -> bool:
        nonlocal left
        left -= 1
        return left >= 0 and breaks(smaller)

    faults = _fewest(plan.faults or (), lambda faults: may_be(replace(plan, faults=faults)))
    plan = replace(plan, faults=faults)
    load = _fewest(plan.load or (), lambda load: may_be(replace(plan, load=load)))
    return replace(plan, load=load)


def _fewest(steps: Steps, may_be: Callable[[Steps], bool]) -> Steps:
    size = len(steps)
    while size:
        at = 0
        while at < len(steps):
            fewer = steps[:at] + steps[at + size :]
            if may_be(fewer):
                steps = fewer
            else:
                at += size
        size = min(size, len(steps)) // 2
    return steps
