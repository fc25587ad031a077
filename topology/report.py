"""What a look at the broker found, as a value."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is not as the plan needs it. An `error` breaks a promise, a `warning` may, or can not be told.

    `on`: the exchange or queue a policy works on, which `name` begins with. `effect`: what it does there.
    """

    severity: Literal["error", "warning"]
    name: str
    found: str
    required: str
    on: str = ""
    effect: str = ""

    def __str__(self) -> str:
        effect = f" ({self.effect})" if self.effect else ""
        return f"{self.severity}: {self.name} is {self.found}{effect}, required is {self.required}"


@dataclass(frozen=True, kw_only=True)
class Report:
    """All findings, errors first. `looked_at` says what was compared, for whoever reads an empty report."""

    findings: tuple[Finding, ...]
    looked_at: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """No promise is broken."""
        return not any(finding.severity == "error" for finding in self.findings)

    def __str__(self) -> str:
        lines = [str(finding) for finding in self.findings]
        return "\n".join([*lines, f"{'ok' if self.ok else 'not ok'}: looked at {', '.join(self.looked_at)}"])


def error(name: str, *, found: object, required: object) -> Finding:
    return Finding(severity="error", name=name, found=str(found), required=str(required))


def warning(name: str, *, found: object, required: object) -> Finding:
    return Finding(severity="warning", name=name, found=str(found), required=str(required))
