"""Tests which tests of tools a whole run leaves out."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import nightly

TESTS = "tests/tools/soak/test_run.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (TESTS, "tests/soak/run.py", "bridge/app.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    return tmp_path


def test_every_named_file_and_folder_exists() -> None:
    named = [*nightly.TOOLS, *(name for names in nightly.TOOLS.values() for name in names)]
    assert [name for name in named if not (nightly.PROJECT / name).exists()] == []


@pytest.mark.parametrize(
    ("changed", "differs"),
    [("tests/soak/run.py", True), (TESTS, True), ("tests/soak/new.py", True), ("bridge/app.py", False)],
)
def test_a_digest_is_of_the_tool_and_its_tests(project: Path, changed: str, differs: bool) -> None:
    before = nightly.digest(TESTS, project)
    (project / changed).write_text("2")
    assert (nightly.digest(TESTS, project) != before) is differs


def test_without_git_nothing_is_left_out(tmp_path: Path) -> None:
    assert nightly.digest(TESTS, tmp_path) == ""


def test_tests_are_left_out_while_their_tool_is_as_noted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(nightly, "NOTED", tmp_path / "nightly.json")
    nightly.note()
    assert nightly.unchanged() == [nightly.PROJECT / tests for tests in nightly.TOOLS]
    (tmp_path / "nightly.json").write_text(f'{{"{TESTS}": "another"}}')
    assert nightly.unchanged() == []
