"""Lists the runs in their order, and what each needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Final

from benchmarks.bench import Bench
from benchmarks.runs import (
    backlog,
    burst,
    checkpoint,
    cycle,
    door,
    instant,
    lateness,
    lone,
    memory,
    outage,
    peers,
    pulls,
    sends,
    topics,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One run. `says`: its description on the page. `after`: the earlier run whose rows it is compared with."""

    name: str
    measure: Callable[[Bench], Awaitable[None]]
    says: str
    after: str | None = None
    needs_own_servers: bool = False
    measures_the_bridge: bool = True


RUNS: Final = (
    Run(name="lateness", measure=lateness.run, says=lateness.SAYS),
    Run(name="backlog", measure=backlog.run, says=backlog.SAYS, after="lateness"),
    Run(name="lateness-50", measure=lateness.slow, says=lateness.SLOW_SAYS),
    Run(name="lateness-2000", measure=lateness.fast, says=lateness.FAST_SAYS),
    Run(name="lone", measure=lone.run, says=lone.SAYS),
    Run(name="sends", measure=sends.run, says=sends.SAYS),
    Run(name="cycle", measure=cycle.run, says=cycle.SAYS),
    Run(name="pulls", measure=pulls.run, says=pulls.SAYS),
    Run(name="instant", measure=instant.run, says=instant.SAYS),
    Run(name="burst", measure=burst.run, says=burst.SAYS),
    Run(name="checkpoint", measure=checkpoint.run, says=checkpoint.SAYS, needs_own_servers=True),
    Run(name="outage", measure=outage.run, says=outage.SAYS, needs_own_servers=True),
    Run(name="memory", measure=memory.run, says=memory.SAYS, needs_own_servers=True),
    Run(name="topics", measure=topics.run, says=topics.SAYS, needs_own_servers=True),
    Run(name="door", measure=door.run, says=door.SAYS, needs_own_servers=True),
    Run(name="peer", measure=peers.run, says=peers.SAYS, needs_own_servers=True, measures_the_bridge=False),
)


def chosen(names: Collection[str], *, own_servers: bool) -> list[Run]:
    """Returns the runs with these names, or all runs if there are no names, and the runs that they need before them.

    Raises:
        ValueError: there is no such run, or it needs private servers and `own_servers` is False.
    """
    possible = {run.name: run for run in RUNS if own_servers or not run.needs_own_servers}
    if unknown := [name for name in names if name not in possible]:
        raise ValueError(f"there is no run {unknown[0]}; choose from {', '.join(possible)}")
    wanted = set(names or possible)
    wanted |= {after for name in wanted if (after := possible[name].after) is not None}
    return [run for run in possible.values() if run.name in wanted]
