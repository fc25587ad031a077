"""Installs what the peers need into a separate folder. The project does not depend on it."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Final

from benchmarks.peers.peer import NotRun

_PATIENCE_S: Final = 180.0
_CELERY: Final = "celery>=5.5,<6"
_BULLMQ: Final = ("bullmq@>=5 <7", "ioredis@5")


async def celery(folder: Path) -> Path:
    """Returns the Python of a virtual environment with Celery, and makes that environment if it is missing.

    Raises:
        NotRun: the installation failed.
    """
    python = folder / "venv" / "bin" / "python"
    if not (folder / "venv" / "made").exists():
        shutil.rmtree(folder / "venv", ignore_errors=True)
        await output(sys.executable, "-m", "venv", str(folder / "venv"))
        await output(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _CELERY)
        (folder / "venv" / "made").touch()
    return python


async def bullmq(folder: Path) -> Path:
    """Returns the folder where Node finds BullMQ, and installs BullMQ if it is missing.

    Raises:
        NotRun: the installation failed.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NotRun(f"{program} is not installed")
    home = folder / "node"
    if not (home / "made").exists():
        home.mkdir(parents=True, exist_ok=True)
        await output("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home), *_BULLMQ)
        (home / "made").touch()
    return home


async def beanstalkd(folder: Path, *, may_install: bool) -> Path:
    """Returns the path of the program: that of this machine, or that of Debian's package, unpacked but not installed.

    Raises:
        NotRun: the program is missing and could not be downloaded.
    """
    if here := shutil.which("beanstalkd"):
        return Path(here)
    home = folder / "beanstalkd"
    program = home / "usr" / "bin" / "beanstalkd"
    if not program.exists():
        if not may_install:
            raise NotRun("beanstalkd is not installed; --peers downloads it")
        home.mkdir(parents=True, exist_ok=True)
        await output("sh", "-c", "apt-get download beanstalkd && dpkg-deb -x beanstalkd_*.deb .", cwd=home)
    return program


async def output(*command: str, cwd: Path | None = None) -> str:
    """Runs a command and returns its output.

    Raises:
        NotRun: the command is missing, failed or took too long.
    """
    try:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
    except OSError as error:
        raise NotRun(f"{command[0]}: {error.strerror}") from error
    try:
        async with asyncio.timeout(_PATIENCE_S):
            printed, _ = await process.communicate()
    except TimeoutError:
        raise NotRun(f"{' '.join(command)} took longer than {_PATIENCE_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
    text = printed.decode(errors="replace").strip()
    if process.returncode != 0:
        raise NotRun(f"{' '.join(command)}: {text[-300:]}")
    return text
