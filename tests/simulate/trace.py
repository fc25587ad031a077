"""Writes down what happens in a simulation: one line for each call, answer, delivery and fault."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

from tests.simulate.clock import Clock


class Trace:
    """The lines of one simulation, each with its virtual moment in seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.lines: list[str] = []

    def note(self, who: str, what: str) -> None:
        self.lines.append(f"{self._clock.elapsed_s:11.6f} {who} {what}")

    @property
    def digest(self) -> str:
        """The fingerprint of the trace."""
        return sha256("\n".join(self.lines).encode()).hexdigest()[:16]

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(f"{line}\n" for line in self.lines))
