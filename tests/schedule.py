"""Decides in which order files are tested, and which of them one worker takes."""

from __future__ import annotations

from typing import Final

from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]

LONGEST: Final = (
    "clusters/test_rabbit.py",
    "tools/benchmarks/test_quick.py",
    "tools/soak/test_run.py",
    "clusters",
    "clients/typescript",
    "fault/private_rabbit",
    "clients/examples",
    "migrate",
    "fault/test_rolling_restarts.py",
    "tools/topology",
    "tools/console/test_console.py",
    "integration/test_audit.py",
    "fuzz",
    "inside",
    "tools/client",
    "tools/torture/test_run.py",
    "tools/local",
    "clients/python/test_celery.py",
    "tools/test_json_output.py",
    "fault",
    "clients",
    "door",
    "simulate",
    "explore",
    "integration",
    "pools",
    "wires",
    "callbacks",
    "property",
    "access",
)
"""Files and folders whose tests take longest, in this order. A worker takes whole files, so long ones begin first.
Searches take CPU alone, so they run beside tests that wait."""

TOGETHER: Final = ("tests/fault/private_rabbit",)
"""Folders of which one worker takes all files, as they share a node of RabbitMQ. Its start takes 4 s of CPU."""


def turn(file: str) -> int:
    """Returns the turn of a file of tests."""
    name = file.removeprefix("tests/")
    return next((at for at, start in enumerate(LONGEST) if name.startswith(start)), len(LONGEST))


class ByFile(LoadFileScheduling):  # type: ignore[misc]
    """Gives a worker all tests of a file, or of a folder in TOGETHER."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return next((folder for folder in TOGETHER if file.startswith(f"{folder}/")), file)
