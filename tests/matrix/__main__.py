"""Runs the tests that need servers on one combination of versions after the other: `python -m tests.matrix`.

Named combinations, such as 4.3+redis-7.0, are run in place of COMBINATIONS. It ends with 1 when a test failed, or a
server is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Final
from xml.etree import ElementTree

from bridge.local import LocalError
from tests.matrix.servers import Servers

PROJECT: Final = Path(__file__).parents[2]

COMBINATIONS: Final = ("3.10+redis-7.0", "4.0+redis-8.0", "4.3+valkey-9.1", "4.3+valkey-8.1")
"""Each version of each server once at least."""

TESTS: Final = (
    "tests/fault",
    "tests/inside",
    "tests/property",
    "tests/integration",
    "tests/clusters",
    "tests/tools/local/test_nodes.py",
    "tests/tools/topology",
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one combination. `failed` counts errors too."""

    versions: Sequence[str]
    passed: int
    failed: int
    skipped: int
    seconds: float


def main(combinations: Sequence[str]) -> int:
    """Returns the exit code. Unpacks all servers before the first test runs."""
    chosen = [_servers(combination) for combination in combinations]
    for folder, suite in {folder: suite for servers in chosen for suite, folder in servers.folders.items()}.items():
        subprocess.run(["sh", "deploy/unpack-servers.sh", suite, folder], cwd=PROJECT, check=True)
    versions = [servers.versions() for servers in chosen]
    outcomes = [_run(servers, found) for servers, found in zip(chosen, versions, strict=True)]
    print(_table(outcomes))
    return int(any(outcome.failed for outcome in outcomes))


def _servers(combination: str) -> Servers:
    rabbitmq, _, redis = combination.partition("+")
    return Servers(rabbitmq=rabbitmq, redis=redis)


def _run(servers: Servers, versions: Sequence[str]) -> Outcome:
    report = PROJECT / ".local" / "matrix" / f"{'+'.join(versions)}.xml"
    report.parent.mkdir(parents=True, exist_ok=True)
    report.unlink(missing_ok=True)
    print(f"\nRabbitMQ {' and '.join(versions)}", flush=True)
    began = monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *TESTS],
        cwd=PROJECT,
        env={**os.environ, **servers.environment},
        check=False,
    )
    count = _counts(report)
    failed = count["failures"] + count["errors"]
    return Outcome(
        versions=versions,
        passed=count["tests"] - failed - count["skipped"],
        # A run that ended early has failed too, whatever it counted.
        failed=failed or int(done.returncode != 0),
        skipped=count["skipped"],
        seconds=monotonic() - began,
    )


def _counts(report: Path) -> dict[str, int]:
    names = ("tests", "failures", "errors", "skipped")
    suite = ElementTree.parse(report).getroot().find("testsuite") if report.exists() else None
    return dict.fromkeys(names, 0) if suite is None else {name: int(suite.get(name, 0)) for name in names}


def _table(outcomes: Sequence[Outcome]) -> str:
    lines = [f"\n{'RabbitMQ':10}{'Redis':16}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>8}"]
    lines += [
        f"{one.versions[0]:10}{one.versions[1]:16}{one.passed:8}{one.failed:8}{one.skipped:8}{one.seconds:8.0f}"
        for one in outcomes
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:] or COMBINATIONS))
    except (LocalError, subprocess.CalledProcessError) as error:
        sys.exit(f"matrix: {error}")
