"""Leaves the tests of a tool out of a whole run while nothing of the tool has changed since they passed.

A tool stands beside the bridge's engine: a benchmark, a client, a command of operators, the console, what deploys and
watches it. Its tests take minutes, and a change of another part rarely breaks them. `make test-nightly` runs all tests
and then notes in `nightly.json` which files of each tool they passed with. A whole run has a tool's tests again as soon
as one of these files differs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parent.parent
TOOLS: Final[Mapping[str, Collection[str]]] = {
    "tests/clients/examples": ("clients/examples",),
    "tests/clients/python/test_celery.py": ("clients/python",),
    "tests/clients/python/test_kills.py": ("clients/python",),
    "tests/clients/python/test_restarts.py": ("clients/python",),
    "tests/clients/typescript/test_schema.py": (
        "bridge/http",
        "bridge/model",
        "clients/typescript",
        "deploy/requirements.lock",
    ),
    "tests/clients/typescript/test_typescript.py": ("clients/typescript",),
    "tests/migrate": ("bridge/cli/migrate", "bridge/door", "topology"),
    "tests/tools/backup": ("bridge/backup", "bridge/cli/backup.py", "bridge/model", "bridge/store"),
    "tests/tools/benchmarks/test_quick.py": ("benchmarks",),
    "tests/tools/client": ("clients/python",),
    "tests/tools/console": ("bridge/http/console", "bridge/http/v1"),
    "tests/tools/containers": (
        *("Dockerfile", "deploy", "docker-compose.yml"),
        *("tests/docs/first_messages.py", "tests/fault/traffic.py", "tests/tools/prometheus/asking.py"),
    ),
    "tests/tools/local": ("bridge/local",),
    "tests/tools/manifests": ("deploy",),
    "tests/tools/prometheus": ("bridge/metrics", "deploy"),
    "tests/tools/soak/test_run.py": ("tests/soak",),
    "tests/tools/test_json_output.py": ("Makefile", "benchmarks", "tests/soak", "tests/torture"),
    "tests/tools/topology": ("bridge/cli/topology.py", "topology"),
    "tests/tools/torture/test_run.py": ("tests/torture", "tests/judging.py", "tests/life.py"),
    "tests/tools/upgrade": ("bridge/broker", "bridge/store"),
}
"""What each file or folder of tests is about, beside itself."""

NOTED: Final = Path(__file__).with_name("nightly.json")


def unchanged() -> list[Path]:
    """The tests whose tools are as the nightly run last passed with. None without git, which names a tool's
    files."""
    noted: dict[str, str] = json.loads(NOTED.read_text())
    return [PROJECT / tests for tests in TOOLS if (found := digest(tests)) and noted.get(tests) == found]


def digest(tests: str, project: Path = PROJECT) -> str:
    """A digest of a tool's files and their tests. Empty without git."""
    try:
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", tests, *TOOLS[tests]]
        listed = subprocess.run(command, cwd=project, check=True, capture_output=True, text=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError):
        return ""
    names = sorted(name for name in listed.split("\0") if name and (project / name).is_file())
    content = [f"{name}\n{sha256((project / name).read_bytes()).hexdigest()}\n" for name in names]
    return sha256("".join(content).encode()).hexdigest()[:16]


def note() -> None:
    """Notes the files of all tools, once all tests have passed with them."""
    NOTED.write_text(json.dumps({tests: digest(tests) for tests in TOOLS}, indent=2) + "\n")


if __name__ == "__main__":
    note()
