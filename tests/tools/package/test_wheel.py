"""Tests that `pip wheel .` builds a package of the bridge, without benchmarks and tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

PROJECT = Path(__file__).parents[3]


def test_the_package_contains_only_bridge_and_topology(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*build, "--wheel-dir", str(tmp_path), str(PROJECT)], check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = [Path(name) for name in ZipFile(wheel).namelist()]
    folders = {name.parts[0] for name in names if not name.parts[0].endswith(".dist-info")}
    assert folders == {"bridge", "topology"}
    sources = {
        path.relative_to(PROJECT)
        for package in folders
        for path in (PROJECT / package).rglob("*")
        if path.suffix in (".py", ".lua") or (path.is_file() and {"swagger", "page"} & set(path.parts))
    }
    assert sources <= set(names)
    vendored = {"swagger-ui-bundle.js", "swagger-ui.css", "LICENSE", "NOTICE", "lit-html.js", "pico.LICENSE.txt"}
    assert vendored | {"index.html", "console.css"} <= {path.name for path in sources}
