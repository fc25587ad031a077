"""Tests that the files of npm's packages are those that `deploy/vendor.sh` brought."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

PROJECT = Path(__file__).parents[3]
FOLDERS = ("bridge/http/console/page/vendor", "tests/tools/console/vendor")


def test_vendored_files_have_the_hashes_of_the_list() -> None:
    lines = (PROJECT / "deploy" / "vendor" / "SHA256SUMS").read_text().splitlines()
    listed = {path: digest for digest, path in (line.split() for line in lines)}
    files = [path for folder in FOLDERS for path in (PROJECT / folder).iterdir()]
    found = {str(path.relative_to(PROJECT)): sha256(path.read_bytes()).hexdigest() for path in files}
    assert found == listed
