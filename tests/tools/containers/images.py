"""Makes stand-ins, of the same names, for the official images that the Dockerfile and docker-compose.yml begin with."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import yaml

from tests.matrix.servers import RABBITMQ, REDIS, Servers
from tests.tools.containers.engine import PROJECT, Engine

CERTIFICATES: Final = Path("/etc/ssl/certs/ca-certificates.crt")
SUITE: Final = "trixie"
"""The Debian release with Python 3.13, as in the official image."""
COMPOSE_SUITE: Final = "forky"
RECIPES: Final = Path(__file__).parent


def full_name(image: str) -> str:
    """The name under which podman keeps an image that a file calls `image`."""
    return image if image.count("/") > 1 else f"docker.io/{image}" if "/" in image else f"docker.io/library/{image}"


def python_image(engine: Engine) -> str:
    """Returns the name of the image that the Dockerfile begins with, and makes it where it is missing."""
    (name,) = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", (PROJECT / "Dockerfile").read_text(), re.MULTILINE)
    # pip trusts the authorities that this machine trusts: it may have a registry's mirror.
    changes = [f"ENV PIP_CERT={CERTIFICATES}"]
    packages = ("python3", "python3-venv", "ca-certificates", "passwd")
    hooks = ['ln -s python3 "$1/usr/bin/python"', f"upload {CERTIFICATES} {CERTIFICATES}"]
    return _imported(engine, name, packages, hooks, changes)


def server_images(engine: Engine) -> None:
    """Makes the images of RabbitMQ and Redis, with the versions that docker-compose.yml names, from unpacked Debian
    releases. Raises LocalError if a release was not unpacked yet; its text has the command."""
    rabbitmq, redis = compose_image("rabbitmq"), compose_image("redis")
    version = rabbitmq.partition(":")[2].rpartition(".")[0]
    servers = Servers(rabbitmq=version, redis=f"redis-{redis.partition(':')[2].rpartition('.')[0]}")
    servers.versions()
    releases = {"rabbitmq": RABBITMQ[servers.rabbitmq or ""], "redis": REDIS[servers.redis or ""]}
    for server, image in (("rabbitmq", rabbitmq), ("redis", redis)):
        if not engine.has_image(full_name(image)):
            folder = str(servers.folders[releases[server]])
            recipe = ("--build-context", f"recipes={RECIPES}", "--file", str(RECIPES / f"{server}.Containerfile"))
            engine("build", *recipe, "--tag", full_name(image), folder)


def prometheus_image(engine: Engine) -> None:
    """Makes the image of Prometheus where it is missing. As in the official one, nobody owns the working directory,
    which holds the data."""
    owned = 'mkdir "$1/prometheus" && chown 65534:65534 "$1/prometheus"'
    entrypoint = 'ENTRYPOINT ["prometheus", "--storage.tsdb.path=data/"]'  # Debian's default is another folder
    changes = [entrypoint, "ENV PATH=/usr/bin", "USER 65534:65534", "WORKDIR /prometheus"]
    packages = ("base-files", "prometheus", "wget")
    _imported(engine, compose_image("prometheus"), packages, [owned], changes, variant="extract")


def compose_image(service: str) -> str:
    """The image that docker-compose.yml names for a service."""
    return str(yaml.safe_load((PROJECT / "docker-compose.yml").read_text())["services"][service]["image"])


def compose_program(engine: Engine) -> Path:
    """Docker Compose itself, of a Debian release, unpacked where it is missing."""
    folder = engine.folder / "compose"
    if not folder.exists():
        _unpack(COMPOSE_SUITE, folder, ("docker-compose",), variant="extract")
    return folder / "usr/libexec/docker/cli-plugins/docker-compose"


def _imported(
    engine: Engine,
    name: str,
    packages: Sequence[str],
    hooks: Sequence[str],
    changes: Sequence[str],
    *,
    variant: str = "essential",
) -> str:
    """Makes an image of Debian packages where it is missing, and returns its full name."""
    image = full_name(name)
    if not engine.has_image(image):
        archive = engine.folder / "unpacked.tar"
        _unpack(SUITE, archive, packages, hooks, variant)
        engine("import", *(f"--change={change}" for change in changes), str(archive), image)
        archive.unlink()
    return image


def _unpack(
    suite: str, target: Path, packages: Sequence[str], hooks: Sequence[str] = (), variant: str = "essential"
) -> None:
    """Writes packages of a Debian release into a folder or a tar file, and then runs hooks. The variant `extract` runs
    no script of a package."""
    sites = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(SITE)"], capture_output=True, text=True, check=True
    ).stdout
    mirror = next(site for site in sites.split() if "security" not in site)
    command = [
        *("mmdebstrap", "--quiet", f"--variant={variant}", "--skip=check/qemu"),
        *('--aptopt=APT::Install-Recommends "false"', '--aptopt=Acquire::Check-Valid-Until "false"'),
        f"--include={','.join(packages)}",
        *(f"--{'extract' if variant == 'extract' else 'customize'}-hook={hook}" for hook in hooks),
        *(suite, str(target), mirror),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"mmdebstrap could not unpack Debian {suite}:\n{done.stderr}")
