"""Runs a Redis master and its replica, with three sentinels that promote the replica if the master fails."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from bridge.local.installation import HERE, Installation
from bridge.local.ports import free_ports
from bridge.local.redis import AppendFsync, RedisNode, ask
from bridge.local.server import Server, Startable

SERVICE = "delaybridge"
DOWN_AFTER_MS = 1_000


class _Member(RedisNode):
    """A Redis server that begins as the replica of `master`, or as a master if `master` is None. The role that the
    sentinels give the server stays over stop and start."""

    master: RedisNode | None = None

    def configuration(self) -> str:
        # The sentinels make Redis rewrite its configuration.
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
        if not configuration.exists():  # a sentinel keeps its state in this file
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
        """Whether the sentinel knows the replica and the other sentinels; without them there is no failover."""
        return f"slaves=1,sentinels={self._size}" in ask(self.port, "INFO sentinel")


class RedisSentinels(Startable):
    """Two Redis servers and three sentinels. Each of `members` and `sentinels` can be stopped, killed, frozen and
    started separately."""

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
        """The URL for the bridge: all sentinels, and the name by which they know the master."""
        return f"redis+sentinel://{','.join(f'127.0.0.1:{sentinel.port}' for sentinel in self.sentinels)}/{SERVICE}/0"

    @property
    def master(self) -> RedisNode:
        """The member that the first sentinel regards as the master."""
        address = ask(self.sentinels[0].port, f"SENTINEL GET-MASTER-ADDR-BY-NAME {SERVICE}").split()
        return next(member for member in self.members if str(member.port) in address)

    def start(self) -> None:
        """Starts every server that is down, and waits until a failover would succeed."""
        for group in (self.members, self.sentinels):
            for server in group:
                if not server.running:
                    server.launch()
            for server in group:
                server.wait_until_ready()

    def stop(self) -> None:
        """Stops all servers gracefully, first the sentinels: they would take the stop of the master for a failure."""
        for group in (self.sentinels, self.members):
            for server in group:
                server.ask_to_stop()
            for server in group:
                server.wait_until_stopped()

    def kill(self) -> None:
        """Sends SIGKILL to all servers."""
        for server in (*self.sentinels, *self.members):
            server.kill()
