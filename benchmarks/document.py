"""Writes the results of a benchmark as JSON: the rows, the machine, and the versions of the software."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from benchmarks.bench import Bench
from benchmarks.runs import Run
from benchmarks.stack import OwnStack, Stack

_LIBRARIES: Final = (
    "aio-pika",
    "aiormq",
    "pamqp",
    "redis",
    "hiredis",
    "fastapi",
    "pydantic",
    "uvicorn",
    "uvloop",
    "httptools",
    "orjson",
)


def document(measured: Bench, runs: Sequence[Run], about: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the JSON document. `about`: the values of `versions` and `commit` at the start, and a
    note for the page."""
    return {
        "machine": machine(),
        "versions": about["versions"] | measured.versions,
        "commit": about["commit"],
        "note": about["note"],
        "quick": not measured.size.judged,
        "runs": {run.name: run.says for run in runs},
        "took_s": {name: round(seconds, 1) for name, seconds in measured.took_s.items()},
        "loop_ms": {name: round(value, 1) for name, value in measured.loop_ms.items()},
        "failed": measured.failed,
        "peers": measured.peers,
        "rows": [row.as_json() for row in measured.rows],
        "series": [series.as_json() for series in measured.series],
    }


def machine() -> dict[str, Any]:
    """Describes the machine. `load` is its load average over 1, 5 and 15 minutes."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory_kib = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpus": os.cpu_count(),
        "cpu": models[0] if models else platform.machine(),
        "memory_gib": round(memory_kib / 1024**2, 1),
        "system": platform.platform(),
        "kernel": platform.release(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def versions(stack: Stack) -> dict[str, str]:
    """Returns the versions of the bridge, its libraries and, if they are private, its servers."""
    by_name = {"delaybridge": version("delaybridge"), "python": platform.python_version()}
    for library in _LIBRARIES:
        try:
            by_name[library] = version(library)
        except PackageNotFoundError:
            continue
    if isinstance(stack, OwnStack) and stack.rabbitmq.running:
        expression = 'io_lib:format("~s ~s", [rabbit_misc:version(), rabbit_misc:otp_release()])'
        printed = stack.rabbitmq.ctl("eval", f"lists:flatten({expression}).")
        by_name["rabbitmq"], by_name["erlang"] = printed.strip().strip('"').split()
        printed = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        by_name["redis-server"] = next(word.removeprefix("v=") for word in printed.split() if word.startswith("v="))
    return by_name


def commit(folder: Path) -> str | None:
    """Returns the commit that is checked out, with a plus sign if the code differs from it. None: not a repository."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout

    try:
        head = git("rev-parse", "HEAD").strip()
        changed = git("status", "--porcelain", "--untracked-files=no", "--", ":/bridge", ":/topology")
    except (OSError, subprocess.CalledProcessError):
        return None
    return head + ("+" if changed else "")


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
