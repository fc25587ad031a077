"""Where a server's programs come from: this machine, or a folder with those of another Debian release."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from bridge.local.errors import LocalError, require_program


@dataclass(frozen=True)
class Installation:
    """This machine's own programs, or those below `folder`: another system's files, unpacked and never installed.

    A program from a folder runs in bubblewrap. It sees that system, its own data and, of this machine, the network,
    the processes and the names of hosts and users. It needs no root and is no service.
    """

    folder: Path | None = None

    def command(self, program: str, package: str, data_dir: Path, *, readable: Iterable[Path] = ()) -> list[str]:
        """The command line of a program, its name or full path, without arguments.

        LocalError where it is missing, with the Debian package that has it. One from a folder can write below
        `data_dir` only, which has to be there when it starts, and of this machine's files read the `readable` ones.
        """
        if self.folder is None:
            return [require_program(program, package)]
        path = Path("/usr/bin", program)
        if not (self.folder / path.relative_to("/")).exists():
            raise LocalError(f"There is no {path} in {self.folder}")
        return [*_sandbox(self.folder, data_dir, readable), str(path)]

    def pid(self, launched: int) -> int:
        """The program's process id, given that of its command line."""
        if self.folder is None:
            return launched
        # bubblewrap stays as the parent of the program, and ids inside are those of this machine.
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
