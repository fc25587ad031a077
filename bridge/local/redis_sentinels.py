"""A Redis master and its replica, watched by three sentinels that let the replica take over."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Self

from bridge.local.installation import HERE, Installation
from bridge.local.ports import free_ports
from bridge.local.redis import AppendFsync, RedisNode, ask
from bridge.local.server import Server

SERVICE = "delaybridge"
DOWN_AFTER_MS = 1_000


class _Member(RedisNode):
    """A master, or a replica of `master` at first; what the sentinels make of it stays over stop and start."""

    master: RedisNode | None = None

    def configuration(self) -> str:
        # The sentinels have it rewritten.
        if (written := self.data_dir / "redis.conf").exists():
            return written.read_text()
        lines = ["repl-diskless-sync-delay 0"]
        if self.master is not None:
            lines.append(f"replicaof 127.0.0.1 {self.master.port}")
        return super().configuration() + "\n".join([*lines, ""])

    def is_ready(self) -> bool:
        replication = self._ask("INFO replication")
        return "role:master" in replication or "master_link_status:up" in replication


class _Sentinel(Server):
    title: ClassVar[str] = "Sentinel"

    def __init__(
        self, data_dir: Path, master: RedisNode, size: int, *, installation: Installation, program: str
    ) -> None:
        super().__init__(data_dir, installation)
        self.port = free_ports(1)[0]
        self._master = master
        self._size = size
        self._program = program

    @property
    def ports(self) -> list[int]:
        return [self.port]

    def command(self) -> list[str]:
        configuration = self.data_dir / "sentinel.conf"
        if not configuration.exists():  # a sentinel notes down in it what it knows
            configuration.write_text(self.configuration())
        program = self.installation.command(self._program, self._program, self.data_dir)
        return [*program, str(configuration), "--sentinel"]

    def configuration(self) -> str:
        return "\n".join(
            [
                "bind 127.0.0.1",
                f"port {self.port}",
                f'dir "{self.data_dir}"',
                f"sentinel monitor {SERVICE} 127.0.0.1 {self._master.port} {self._size // 2 + 1}",
                f"sentinel down-after-milliseconds {SERVICE} {DOWN_AFTER_MS}",
                f"sentinel failover-timeout {SERVICE} 3000",
                "",
            ]
        )

    def is_ready(self) -> bool:
        """Whether it knows the replica and the other sentinels, without which there is no failover."""
        return f"slaves=1,sentinels={self._size}" in ask(self.port, "INFO sentinel")


class RedisSentinels:
    """Each of `members` and `sentinels` can be stopped, killed, frozen and started by itself."""

    def __init__(
        self,
        data_dir: Path,
        *,
        appendfsync: AppendFsync = "always",
        installation: Installation = HERE,
        program: str = "redis-server",
    ) -> None:
        self.members = [
            _Member(data_dir / name, appendfsync=appendfsync, installation=installation, program=program)
            for name in ("first", "second")
        ]
        self.members[1].master = self.members[0]
        self.sentinels = [
            _Sentinel(data_dir / f"sentinel{number}", self.members[0], 3, installation=installation, program=program)
            for number in range(1, 4)
        ]

    @property
    def url(self) -> str:
        """Address for the bridge: all sentinels, and the name they know the master by."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{one.port}' for one in self.sentinels)}/{SERVICE}/0"

    @property
    def master(self) -> RedisNode:
        """The member that the first sentinel takes for the master."""
        said = ask(self.sentinels[0].port, f"SENTINEL GET-MASTER-ADDR-BY-NAME {SERVICE}").split()
        return next(member for member in self.members if str(member.port) in said)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Starts all that is down, and waits until a failover would succeed."""
        for group in (self.members, self.sentinels):
            for server in group:
                if not server.running:
                    server.launch()
            for server in group:
                server.wait_until_ready()

    def stop(self) -> None:
        """Stops all gracefully, the sentinels first: they would see a failure in it."""
        for group in (self.sentinels, self.members):
            for server in group:
                server.ask_to_stop()
            for server in group:
                server.wait_until_stopped()

    def kill(self) -> None:
        """SIGKILL to all."""
        for server in (*self.sentinels, *self.members):
            server.kill()
