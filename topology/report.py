"""Defines the report of `verify`: findings about the broker, as values."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One difference between the broker and the plan. An `error` breaks a promise. A `warning` may break a promise, or
    says that something could not be checked.

    `name`: what differs. `found`: its value on the broker. `required`: the value in the plan, or the allowed values.
    `on`: for a policy, the exchange or queue that the policy applies to; `name` then begins with `on`. `effect`: what
    the difference does. `remedy`: what an operator can do about it. `unread`: the broker did not show the thing, so it
    was not compared.
    """

    severity: Literal["error", "warning"]
    name: str
    found: str
    required: str
    on: str = ""
    effect: str = ""
    remedy: str = ""
    unread: bool = False

    def __str__(self) -> str:
        effect = f" ({self.effect})" if self.effect else ""
        remedy = f". {self.remedy}" if self.remedy else ""
        return f"{self.severity}: {self.name} is {self.found}{effect}; it must be {self.required}{remedy}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """The result of `verify`. `findings`: errors first. `checked`: what was compared, so that a report without findings
    says something. `skipped`: what was not compared, each with the reason."""

    findings: tuple[Difference, ...]
    checked: tuple[str, ...]
    skipped: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        lines.append(f"{'ok' if self.ok else 'not ok'}: checked {', '.join(self.checked)}")
        lines += [f"not checked: {skipped}" for skipped in self.skipped]
        return "\n".join(lines)


def error(name: str, *, found: object, required: object, remedy: str = "") -> Difference:
    return Difference(severity="error", name=name, found=str(found), required=str(required), remedy=remedy)


def warning(name: str, *, found: object, required: object, effect: str = "", remedy: str = "") -> Difference:
    return Difference(
        severity="warning", name=name, found=str(found), required=str(required), effect=effect, remedy=remedy
    )


def unread(name: str, *, found: object, remedy: str) -> Difference:
    """Returns a warning that the broker did not show `name`, so `name` was not compared."""
    return Difference(severity="warning", name=name, found=str(found), required="readable", remedy=remedy, unread=True)
