"""Runs `make explore`: visits the states of all scenarios, and prints the figures as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bridge.local.redis import RedisNode
from tests.explore.planted import PLANTED
from tests.explore.scenarios import SCENARIOS
from tests.explore.search import Found, search
from tests.explore.stored import Stored

_BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def main(arguments: Sequence[str]) -> int:
    """Returns 0 if no promise broke; with `--planted`, if each planted defect was found."""
    parser = argparse.ArgumentParser(prog="make explore", description=__doc__)
    parser.add_argument("--states", type=int, default=100_000, help="of each scenario, at most")
    parser.add_argument("--only", nargs="+", choices=[*_BY_NAME], default=[*_BY_NAME], help="scenarios")
    parser.add_argument("--planted", action="store_true", help="look for the planted defects instead")
    options = parser.parse_args(arguments)
    with _redis() as port:
        found = _planted(port, options.states) if options.planted else _explored(port, options.only, options.states)
        figures = {}
        failed = False
        for name, one in found:
            figures[name] = _figures(one)
            failed |= bool(one.broken) is not options.planted
            print(f"{name}: {one.states} states, {one.broken or 'no promise broke'}", file=sys.stderr, flush=True)
    print(json.dumps(figures, indent=2))
    return int(failed)


def _explored(port: int, names: Sequence[str], most: int) -> Iterator[tuple[str, Found]]:
    for name in names:
        with closing(Stored(port)) as redis:
            yield name, search(_BY_NAME[name], redis, most=most)


def _planted(port: int, most: int) -> Iterator[tuple[str, Found]]:
    for defect in filter(lambda defect: defect.scenario, PLANTED):
        with defect.planted() as texts, closing(Stored(port, texts)) as redis:
            yield defect.name, search(_BY_NAME[defect.scenario], redis, most=most)


def _figures(found: Found) -> dict[str, Any]:
    return {**asdict(found), "states_a_second": round(found.states / max(found.seconds, 0.001))}


@contextmanager
def _redis() -> Iterator[int]:
    with tempfile.TemporaryDirectory(prefix="delaybridge-explore-") as folder:
        node = RedisNode(Path(folder), appendfsync="everysec")
        with node:
            yield node.port


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
