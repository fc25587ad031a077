"""Builds the library that lies to a server about the time and slows its disk, and controls it by a file."""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

_SOURCE = Path(__file__).with_name("shim.c")


class Shim:
    """The lies to one server. `environment` is for the server's process."""

    def __init__(self, folder: Path, name: str) -> None:
        self._library = folder / "shim.so"
        self._file = folder / f"{name}.shim"

    @property
    def environment(self) -> dict[str, str]:
        """Empty if the library could not be built."""
        if not self._library.exists():
            return {}
        return {"LD_PRELOAD": str(self._library), "DISTURB_FILE": str(self._file)}

    @property
    def missing(self) -> str:
        """Why the server hears no lies. Empty: it does."""
        return "" if self._library.exists() else "no C compiler: install gcc"

    def build(self) -> None:
        """Compiles the library, unless another shim of the folder has, and makes the file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        self.set()
        compiler = shutil.which("cc") or shutil.which("gcc")
        if compiler is not None and not self._library.exists():
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", self._library, _SOURCE], check=True)

    def set(self, *, ahead_ms: int = 0, sync_ms: int = 0) -> None:
        """Sets the clock that far ahead, and makes each write to the disk take that much longer."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(struct.pack("qq", ahead_ms, sync_ms))
