"""A Redis server whose disk is full when somebody says so."""

from __future__ import annotations

import resource
import shutil

from bridge.local.redis import RedisNode


class SmallDisk(RedisNode):
    """A Redis whose files can be kept from growing. It sees a full disk, and nobody needs privileges."""

    def command(self) -> list[str]:
        # At the limit the kernel sends SIGXFSZ, which would end Redis. When it is ignored, writes fail instead.
        return [shutil.which("env") or "env", "--ignore-signal=XFSZ", *super().command()]

    def fill(self) -> None:
        """Limits the size of each file to one byte."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def clear(self) -> None:
        """Ends the limit."""
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
