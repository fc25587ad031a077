"""Tests `make bench`, `make torture` and `make soak` as a program calls them. They use the checkout's own .venv."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.tools.test_make import PROJECT, make
from tests.waiting import HUNG_AFTER_S

own_environment = pytest.mark.skipif(
    Path(sys.prefix).resolve() != PROJECT / ".venv", reason="the tests do not run in the checkout's own .venv"
)


@own_environment
@pytest.mark.timeout(HUNG_AFTER_S)
def test_bench_prints_json_and_nothing_else() -> None:
    found = json.loads(make("bench", "ARGS=--only lone --quick --json --folder .local/test-make/bench"))
    assert {row["row"].split()[0] for row in found["rows"]} == {"lone"}


@own_environment
@pytest.mark.timeout(HUNG_AFTER_S)
def test_torture_prints_json_and_nothing_else() -> None:
    found = json.loads(
        make("torture", "ARGS=--minutes 0.1 --seed 1 --rate 20 --json --folder .local/test-make/torture")
    )
    assert found["lost"] == 0
