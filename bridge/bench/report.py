"""The rows as a table, as JSON and as a page."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bridge.bench.figures import Row
from bridge.bench.runs import Run
from bridge.bench.size import Size
from bridge.bench.stack import OwnStack, Stack

_MET = {True: "met", False: "missed", None: ""}


def document(
    rows: Sequence[Row], runs: Sequence[Run], failed: Mapping[str, str], size: Size, stack: Stack
) -> dict[str, Any]:
    """All that is worth keeping of a benchmark. `failed`: why a run could not be done, by its name."""
    return {
        "machine": machine(),
        "versions": versions(stack),
        "commit": commit(),
        "quick": not size.judged,
        "runs": {run.name: run.says for run in runs},
        "failed": dict(failed),
        "rows": [row.as_json() for row in rows],
    }


def machine() -> dict[str, Any]:
    """The machine, and how busy it was: `load` is the number of tasks that ran on average, 1, 5 and 15 minutes."""
    models = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory_kib = next((int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {
        "cpus": os.cpu_count(),
        "cpu": models[0] if models else platform.machine(),
        "memory_gib": round(memory_kib / 1024**2, 1),
        "system": platform.platform(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }


def versions(stack: Stack) -> dict[str, str]:
    """Of all that can be asked."""
    found = {"delaybridge": version("delaybridge"), "python": platform.python_version()}
    if isinstance(stack, OwnStack):
        found["rabbitmq"] = stack.rabbitmq.ctl("eval", "rabbit_misc:version().").strip().strip('"')
        printed = subprocess.run(["redis-server", "--version"], capture_output=True, text=True, check=True).stdout
        found["redis"] = next(word.removeprefix("v=") for word in printed.split() if word.startswith("v="))
    return found


def commit() -> str | None:
    """The commit that is checked out, with a plus sign where files differ from it; None outside a repository."""
    folder = Path(__file__).parent
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=folder,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return head.stdout.strip() + ("+" if changed.stdout else "")


def line(row: Row) -> str:
    """A row for the terminal."""
    goal = "" if row.goal is None else f"{row.goal}"
    return f"{row.name:<44}{number(row.value):>12} {row.unit:<12}{goal:<10}{_MET[row.met]}".rstrip()


def page(found: dict[str, Any]) -> str:
    """docs/benchmarks.md, from what `document` gives or its JSON holds."""
    where = found["machine"]
    versions_said = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    parts = [
        "# Benchmarks",
        "Written by `delaybridge bench --docs docs/benchmarks.md`; `make bench` measures anew. [Profiles](profiles.md) "
        "say why a figure is missed. Bodies are small, one bridge process serves, and servers and client share the "
        "machine.",
        f"{where['cpus']} x {where['cpu']}, {where['memory_gib']} GiB, {where['system']}; "
        f"load {where['load'][0]} at the end of the run. {versions_said}. Commit {found['commit'] or 'unknown'}.",
        "CPU rows: CPU seconds by 1,000 messages (of RabbitMQ and Redis, and of the client that measures).",
    ]
    if found["quick"]:
        parts.append("**A quick run: the figures say nothing.**")
    for name, says in found["runs"].items():
        parts += [f"## {name}", says]
        if name in found["failed"]:
            parts.append(f"**Could not be done.** {found['failed'][name]}")
        parts.append(_table([row for row in found["rows"] if row["row"].split()[0] == name]))
    return "\n\n".join(parts) + "\n"


def number(value: float) -> str:
    """With as many decimals as say something."""
    size = abs(value)
    return f"{value:,.0f}" if size >= 100 or value == int(value) else f"{value:.1f}" if size >= 10 else f"{value:.3g}"


def _table(rows: Sequence[dict[str, Any]]) -> str:
    head = ["| row | value | unit | goal | |", "| --- | ---: | --- | --- | --- |"]
    body = [
        f"| {row['row']} | {number(row['value'])} | {row['unit']} | {row['goal'] or ''} | {_MET[row['met']]} |"
        for row in rows
    ]
    return "\n".join(head + body)


def _lines(path: str) -> list[str]:
    return Path(path).read_text().splitlines() if Path(path).exists() else []
