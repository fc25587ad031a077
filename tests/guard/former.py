"""Finds the code to compare this checkout with: the commit before the last change of the code."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CODE: Final = ("bridge", "topology")
REQUIREMENTS: Final = "deploy/requirements.lock"


class Incomparable(Exception):
    """There is no code to compare with; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Former:
    folder: Path
    says: str  # the commit's short hash and its subject


def former(project: Path, folder: Path, against: str | None = None) -> Former:
    """Unpacks the code of the commit `against` into a new `folder`. The default is HEAD if the checkout's code differs
    from it. Otherwise the default is the commit before the last one that changed the code.

    Raises:
        Incomparable: there is no such commit (in a shallow clone), or it needs other packages than are installed.
    """
    commit = against or _before(project)
    if _git(project, "diff", "--quiet", commit, "--", REQUIREMENTS).returncode:
        raise Incomparable(f"{commit} is not there, or is made for other packages than {REQUIREMENTS} has now")
    archive = _git(project, "archive", commit, *CODE)
    says = _git(project, "log", "-1", "--format=%h %s", commit)
    folder.mkdir()
    subprocess.run(["tar", "--extract", f"--directory={folder}"], input=archive.stdout, check=True)
    return Former(folder=folder, says=says.stdout.decode().strip())


def _before(project: Path) -> str:
    if _git(project, "diff", "--quiet", "HEAD", "--", *CODE).returncode == 1:
        return "HEAD"
    changed = _git(project, "log", "-1", "--first-parent", "--format=%H", "--", *CODE).stdout.decode().strip()
    # In a shallow clone the oldest commit seems to have made every file.
    if not changed or _git(project, "rev-parse", "--verify", "--quiet", f"{changed}^").returncode:
        raise Incomparable("the commit before the last change of the code is not in this clone")
    return f"{changed}^"


def _git(project: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=project, capture_output=True, check=False)
    except FileNotFoundError:
        raise Incomparable("git is not installed") from None
