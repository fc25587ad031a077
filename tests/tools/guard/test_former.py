"""Tests which code a checkout is compared with."""

import subprocess
from pathlib import Path

import pytest

from tests.guard.former import REQUIREMENTS, Incomparable, former


class Checkout:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self.git("init", "--quiet")

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout

    def write(self, path: str, text: str) -> None:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / path).write_text(text)

    def commit(self, says: str, **files: str) -> None:
        for name, text in files.items():
            self.write({"code": "bridge/a.py", "wheel": "topology/a.py", "needs": REQUIREMENTS}.get(name, name), text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", says)


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    checkout = Checkout(tmp_path / "checkout")
    checkout.commit("one", code="1", wheel="1", needs="1")
    return checkout


def test_the_former_code_is_the_commit_before_the_last_change(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("two", code="2")
    checkout.commit("only read", readme="3")
    found = former(checkout.folder, tmp_path / "before")
    assert (found.folder / "bridge" / "a.py").read_text() == "1"
    assert (found.folder / "topology" / "a.py").read_text() == "1"
    assert found.says.endswith(" one")


def test_uncommitted_code_is_compared_with_the_last_commit(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("two", code="2")
    checkout.write("bridge/a.py", "3")
    assert former(checkout.folder, tmp_path / "before").says.endswith(" two")


def test_another_commit_can_be_named(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("two", code="2")
    checkout.commit("three", code="3")
    assert former(checkout.folder, tmp_path / "before", "HEAD~2").says.endswith(" one")


def test_the_first_commit_has_no_former_code(checkout: Checkout, tmp_path: Path) -> None:
    with pytest.raises(Incomparable, match="not in this clone"):
        former(checkout.folder, tmp_path / "before")


def test_a_shallow_clone_may_lack_the_former_commit(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("two", code="2")
    checkout.git("clone", "--quiet", "--depth=1", checkout.folder.as_uri(), str(tmp_path / "shallow"))
    with pytest.raises(Incomparable, match="not in this clone"):
        former(tmp_path / "shallow", tmp_path / "before")


def test_code_that_needs_other_packages_is_not_compared(checkout: Checkout, tmp_path: Path) -> None:
    checkout.commit("two", code="2", needs="2")
    with pytest.raises(Incomparable, match="other packages"):
        former(checkout.folder, tmp_path / "before")


def test_a_folder_that_is_no_checkout_has_no_former_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(Incomparable):
        former(tmp_path, tmp_path / "before")
