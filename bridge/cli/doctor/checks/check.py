"""Describes a check, and what it may answer."""

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
    """One thing that is wrong. `found`: where and what. An `error` breaks a promise or stops a bridge; a `warning` may
    break one, or makes messages late. `remedy`: None if that of the check says all."""

    found: str
    severity: Literal["error", "warning"] = "error"
    remedy: str | None = None


Verdict = Sequence[Fault] | Missing
"""All faults, none if nothing is wrong; or why the check can't be made."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """One check. `number`: it never changes. `cause`: what leads to the fault. `effect`: what the fault does. `remedy`:
    what an operator does."""

    number: int
    title: str
    cause: str
    effect: str
    remedy: str
    decide: Callable[[Facts], Verdict]

    @property
    def heading(self) -> str:
        """The heading of its section on the page."""
        return f"{self.number} {self.title}"

    @property
    def docs(self) -> str:
        """The page and the anchor of its section."""
        anchor = re.sub(r"[^\w\- ]", "", self.heading.lower()).replace(" ", "-")
        return f"{PAGE}#{anchor}"


def over(
    part: Callable[[Facts], Part | Missing], judge: Callable[[Part], Iterable[Fault] | Missing]
) -> Callable[[Facts], Verdict]:
    """Decides by one part of the facts. Without it the check can't be made."""

    def decide(facts: Facts) -> Verdict:
        found = part(facts)
        if isinstance(found, Missing):
            return found
        verdict = judge(found)
        return verdict if isinstance(verdict, Missing) else tuple(verdict)

    return decide


def listed(items: Iterable[object]) -> str:
    """A list in words, of bounded length."""
    texts = [str(item) for item in items]
    more = f" and {len(texts) - 5} more" if len(texts) > 5 else ""
    return ", ".join(texts[:5]) + more
