"""Tests that the client is a package of its own: without the server, typed, and with httpx2 alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.docs.documents import PROJECT

CLIENT = PROJECT / "clients" / "python"
LOOK = """
import importlib.metadata, importlib.util, json
print(json.dumps({
    "packages": sorted(one.name for one in importlib.metadata.distributions()),
    "found": [name for name in ("bridge", "topology", "delaybridge_client") if importlib.util.find_spec(name)],
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*build, "--wheel-dir", str(folder), str(CLIENT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def test_the_wheel_has_the_client_alone(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = [Path(name) for name in archive.namelist()]
        (metadata,) = (archive.read(str(name)).decode() for name in names if name.name == "METADATA")
    assert {name.parts[0] for name in names if not name.parts[0].endswith(".dist-info")} == {"delaybridge_client"}
    sources = {path.relative_to(CLIENT) for path in (CLIENT / "delaybridge_client").rglob("*.py")}
    assert sources | {Path("delaybridge_client/py.typed")} <= set(names)
    required = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert required == ["Requires-Dist: httpx2<3,>=2.16"]


def test_an_environment_with_the_wheel_has_no_server(wheel: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    python = tmp_path / "venv" / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", "--quiet"]
    subprocess.run([*install, str(wheel)], check=True)
    looked = subprocess.run([python, "-c", LOOK], check=True, stdout=subprocess.PIPE, cwd=tmp_path)
    assert looked.stdout.decode().strip() == '{"packages": ["delaybridge-client"], "found": ["delaybridge_client"]}'
