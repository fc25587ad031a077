"""Where what the peers need comes from. It stands in a folder of its own, and is no dependency of the project."""

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
    """The Python of a virtual environment that has Celery, made where there is none.

    Raises:
        NotRun: it can't be had.
    """
    python = folder / "venv" / "bin" / "python"
    if not (folder / "venv" / "made").exists():
        shutil.rmtree(folder / "venv", ignore_errors=True)
        await output(sys.executable, "-m", "venv", str(folder / "venv"))
        await output(str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _CELERY)
        (folder / "venv" / "made").touch()
    return python


async def bullmq(folder: Path) -> Path:
    """The folder below which Node finds BullMQ, fetched where it is missing.

    Raises:
        NotRun: it can't be had.
    """
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            raise NotRun(f"no {program}")
    home = folder / "node"
    if not (home / "made").exists():
        home.mkdir(parents=True, exist_ok=True)
        await output("npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home), *_BULLMQ)
        (home / "made").touch()
    return home


async def beanstalkd(folder: Path, *, may_install: bool) -> Path:
    """The program: this machine's, or Debian's, unpacked and not installed.

    Raises:
        NotRun: it can't be had.
    """
    if here := shutil.which("beanstalkd"):
        return Path(here)
    home = folder / "beanstalkd"
    program = home / "usr" / "bin" / "beanstalkd"
    if not program.exists():
        if not may_install:
            raise NotRun("no beanstalkd; --peers fetches it")
        home.mkdir(parents=True, exist_ok=True)
        await output("sh", "-c", "apt-get download beanstalkd && dpkg-deb -x beanstalkd_*.deb .", cwd=home)
    return program


async def output(*command: str, cwd: Path | None = None) -> str:
    """What a command prints.

    Raises:
        NotRun: it is missing, failed or took too long.
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
