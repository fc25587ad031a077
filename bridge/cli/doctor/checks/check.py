"""Describes a check of the doctor, and its possible verdicts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.missing import Missing

PAGE: Final = "docs/operating/doctor.md"

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong. `found`: what is wrong, and where. `severity`: an `error` breaks a promise or stops a
    bridge; a `warning` may break a promise, or makes messages late. `remedy`: replaces the check's remedy; None: the
    check's remedy holds."""

    found: str
    severity: Literal["error", "warning"] = "error"
    remedy: str | None = None


Verdict = Sequence[Fault] | Missing
"""The verdict of a check: all faults, none if nothing is wrong; or why the check can't be made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check. `number` never changes. `cause`: what leads to the fault. `effect`: what the fault does. `remedy`:
    what an operator does about the fault. `decide`: runs the check on the facts, and returns the verdict."""

    number: int
    title: str
    cause: str
    effect: str
    remedy: str
    decide: Callable[[Facts], Verdict]

    @property
    def heading(self) -> str:
        """The heading of the check's section on the page `PAGE`."""
        return f"{self.number} {self.title}"

    @property
    def docs(self) -> str:
        """The page, with the anchor of the check's section."""
        anchor = re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")
        return f"{PAGE}#{anchor}"


def over(
    part: Callable[[Facts], Part | Missing], judge: Callable[[Part], Iterable[Fault] | Missing]
) -> Callable[[Facts], Verdict]:
    """Returns a function for `Check.decide` that calls `judge` with one part of the facts. `part`: reads this part out
    of the facts. If `part` returns `Missing`, the returned function does not call `judge`, and this `Missing` is the
    verdict."""

    def decide(facts: Facts) -> Verdict:
        found = part(facts)
        if isinstance(found, Missing):
            return found
        verdict = judge(found)
        return verdict if isinstance(verdict, Missing) else tuple(verdict)

    return decide


def listed(items: Iterable[object]) -> str:
    """Returns the first five items as text, with commas between them, and how many more items there are."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
    return ", ".join(texts[:5]) + more
