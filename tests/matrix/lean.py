"""Starts this machine's RabbitMQ with less CPU: without unused plugins, and with all Erlang modules in one folder.

Erlang looks for each of a thousand modules in the folder of one application after the other. Most of a node's start was
this search: 53,000 files that do not exist. One folder with links to all modules, searched first, leaves 7,000.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridge.local.errors import LocalError
from bridge.local.installation import Installation

PROJECT: Final = Path(__file__).parents[2]
PROGRAMS: Final = Path("/usr/lib/rabbitmq/bin")
ENABLED: Final = "rabbitmq_management"
OTP: Final = Path("/usr/lib/erlang/lib")
_LINKS: Final = "zz_modules"
"""An application without modules of its own. RabbitMQ searches the plugins' folders from the last name to the first."""
_LINKS_APP: Final = f"""{{application, {_LINKS}, [
  {{description, "Links to the modules of all other applications"}}, {{vsn, "1"}},
  {{modules, []}}, {{registered, []}}, {{applications, [kernel, stdlib]}}]}}.
"""
_UNLINKED: Final = "rabbitmq_prelaunch"  # finds the schema of rabbitmq.conf beside its own modules
_APPLICATIONS: Final = re.compile(r"\{applications,\s*\[([^]]*)\]")


@dataclass(frozen=True)
class LeanInstallation(Installation):
    """This machine's programs. Those of RabbitMQ find only the plugins that tests need."""

    def command(self, program: str, package: str, data_dir: Path, *, readable: Iterable[Path] = ()) -> list[str]:
        original = Path(super().command(program, package, data_dir, readable=readable)[0])
        return [str(_lean(original.resolve()) if original.parent == PROGRAMS else original)]


def _lean(program: Path) -> Path:
    """Returns the same program in a copy of RabbitMQ's folder, made once for all runs."""
    home = program.parents[1]
    copy = PROJECT / ".local" / f"linked-{home.name}"
    if not copy.exists():
        copy.parent.mkdir(exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=copy.parent))
        for folder in ("sbin", "escript"):
            shutil.copytree(home / folder, draft / folder)
        (draft / "plugins").mkdir()
        plugins = _needed(home / "plugins")
        for plugin in plugins:
            (draft / "plugins" / plugin.name).symlink_to(plugin)
        _link_modules([*OTP.iterdir(), *plugins], draft / "plugins" / f"{_LINKS}-1" / "ebin")
        try:
            os.rename(draft, copy)
        except OSError:
            # Another worker was faster.
            shutil.rmtree(draft)
    return copy / "sbin" / program.name


def _needed(plugins: Path) -> list[Path]:
    """Returns the libraries, and of the plugins those that RabbitMQ and the enabled plugin depend on."""
    folders = {folder.name.partition("-")[0]: folder for folder in plugins.iterdir() if folder.is_dir()}
    if ENABLED not in folders:
        raise LocalError(f"RabbitMQ's plugin {ENABLED} is missing in {plugins}")
    needed, asked = set[str](), ["rabbit", ENABLED]
    while asked:
        name = asked.pop()
        if name in folders and name not in needed:
            needed.add(name)
            found = _APPLICATIONS.search((folders[name] / "ebin" / f"{name}.app").read_text())
            asked += [one.strip() for one in found[1].split(",")] if found else []
    return [folder for name, folder in folders.items() if name in needed or not name.startswith("rabbitmq_")]


def _link_modules(applications: Iterable[Path], folder: Path) -> None:
    """Makes the folder, with a link to each module of the applications. A link whose module is gone does no harm:
    Erlang goes on to the next folder."""
    folder.mkdir(parents=True)
    (folder / f"{_LINKS}.app").write_text(_LINKS_APP)
    for application in applications:
        if application.name.partition("-")[0] != _UNLINKED:
            for module in (application / "ebin").glob("*.beam"):
                (folder / module.name).symlink_to(module)
