"""Makes stand-ins, of the same names, for the official images that the Dockerfile and docker-compose.yml begin with."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

from tests.tools.containers.engine import PROJECT, Engine

CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
SUITE: Final = "trixie"
"""The Debian release with the Python version, 3.13, of the official image."""


def full_name(image: str) -> str:
    """The name under which podman keeps an image that a file calls `image`."""
    return image if image.count("/") > 1 else f"docker.io/{image}" if "/" in image else f"docker.io/library/{image}"


def python_image(engine: Engine) -> str:
    """Returns the name of the image that the Dockerfile begins with, and makes it where it is missing."""
    (name,) = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    image = full_name(name)
    if not engine.has_image(image):
        archive = engine.folder / "python.tar"
        _unpack(archive, "python3", "python3-venv", "ca-certificates", "passwd")
        # pip trusts the authorities that this machine trusts: it may have a registry's mirror.
        engine("import", "--change", f"ENV PIP_CERT={CERTIFICATES}", str(archive), image)
        archive.unlink()
    return image


def _unpack(archive: Path, *packages: str) -> None:
    """Writes a Debian system with these packages into a tar file."""
    targets = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True, check=True
    ).stdout
    mirror = next(site for site in targets.split() if "security" not in site)
    command = [
        *("mmdebstrap", "--quiet", "--variant=essential", "--skip=check/qemu"),
        *("--aptopt=APT::Install-Recommends false", f"--include={','.join(packages)}"),
        '--customize-hook=ln -s python3 "$1/usr/bin/python"',
        f"--customize-hook=upload {CERTIFICATES} {CERTIFICATES}",
        *(SUITE, str(archive), mirror),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mmdebstrap could not unpack Debian {SUITE}:\n{done.stderr}")
