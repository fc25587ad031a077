"""Holds what a run found, and keeps the histories of messages that broke a promise."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.history import History, now_ms
from tests.judging import Verdict
from tests.torture.plan import Kind

_SHOWN = 20  # histories; the folder has all


@dataclass(frozen=True, slots=True)
class Outcome:
    """`errors`: what bridges logged as bugs, and other findings. `lines`: the progress of the run, with its moments."""

    verdict: Verdict
    faults: Mapping[Kind, int]
    history: History
    errors: Sequence[str]
    lines: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        """The counts of messages by verdict, of events by kind, and of faults by kind."""
        return {
            **self.verdict.counts(),
            "events": dict(Counter(str(event.what) for event in self.history.events)),
            "faults": {str(kind): count for kind, count in self.faults.items()},
        }

    def wrong(self) -> list[str]:
        """Returns every error of a bridge, and the first messages that broke a promise with their events."""
        broken = [f"{name} {key}" for name, keys in self.verdict.wrong.items() for key in keys]
        shown = [f"{one}: {'; '.join(self._events(one.split(maxsplit=1)[1]))}" for one in broken[:_SHOWN]]
        more = [f"and {len(broken) - _SHOWN} more"] if len(broken) > _SHOWN else []
        return [*self.errors, *shown, *more]

    def keep(self, run_folder: Path, name: str) -> Path:
        """Writes a file for each message that broke a promise, the errors and the progress, and copies the logs.
        Returns the folder of all that, in which no later run writes."""
        folder = run_folder / "kept" / f"{name}-{now_ms()}"
        folder.mkdir(parents=True)
        for promise, keys in self.verdict.wrong.items():
            for key in keys:
                (folder / f"{promise}-{re.sub(r'[^A-Za-z0-9-]', '_', key)}").write_text(_text(self._events(key)))
        (folder / "errors").write_text(_text(self.errors))
        (folder / "progress").write_text(_text(self.lines))
        shutil.copytree(run_folder / "log", folder / "log")
        return folder

    def _events(self, key: str) -> list[str]:
        return [str(event) for event in self.history.of(key)]


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
