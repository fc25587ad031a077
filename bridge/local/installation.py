"""Finds a server's programs: on this machine, or in a folder with the files of another Debian release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bridge.local.errors import LocalError, require_program


@dataclass(frozen=True)
class Installation:
    """Finds programs on this machine, or below `folder`, which has the unpacked files of another Debian system.

    A program from a folder runs in bubblewrap. The program sees the files of that system and its own data. It shares
    this machine's network, processes, and names of hosts and users. It needs no root permission.
    """

    folder: Path | None = None

    def command(self, program: str, package: str, data_dir: Path, *, readable: Iterable[Path] = ()) -> list[str]:
        """Returns the command line of a program, given by its name or full path, without arguments.

        A program from a folder can write only below `data_dir`, which must exist when it starts. It can read only the
        `readable` files of this machine.

        Raises:
            LocalError: the program is missing; the text names the Debian package that has it.
        """
        if self.folder is None:
            return [require_program(program, package)]
        path = Path("/usr/bin", program)
        if not (self.folder / path.relative_to("/")).exists():
            raise LocalError(f"{path} is missing in {self.folder}: unpack the Debian package {package} there")
        return [*_sandbox(self.folder, data_dir, readable), str(path)]

    def pid(self, launched: int) -> int:
        """Returns the program's process id. `launched`: the process id of the started command. For a program from a
        folder, that command is bubblewrap."""
        if self.folder is None:
            return launched
        # bubblewrap stays the parent of the program. Process ids in the sandbox are those of this machine.
        children = Path(f"/proc/{launched}/task/{launched}/children").read_text().split()
        return int(children[0]) if children else launched


HERE = Installation()


def _sandbox(folder: Path, data_dir: Path, readable: Iterable[Path]) -> list[str]:
    options = ["--die-with-parent"]
    for name in ("usr", "etc", "var"):
        options += ["--ro-bind", f"{folder / name}", f"/{name}"]
    for name in ("bin", "sbin", "lib", "lib64"):
        options += ["--symlink", f"usr/{name}", f"/{name}"]
    options += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"]
    for file in ("/etc/hosts", "/etc/passwd", *map(str, readable)):
        options += ["--ro-bind", file, file]
    options += ["--bind", f"{data_dir}", f"{data_dir}", "--chdir", f"{data_dir}"]
    return [require_program("bwrap", "bubblewrap"), *options]
