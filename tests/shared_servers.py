"""Runs one RabbitMQ and one Redis for a whole test run, however many pytest workers it has.

The first worker that needs them starts a keeper process (`python -m tests.shared_servers FOLDER`). A file lock decides
which worker is first. Every worker that uses the servers holds a shared lock on the file `users`. The keeper waits for
an exclusive lock on that file: it gets the lock when the last worker has left, or was killed. Then it kills the
servers and removes the folder. The servers die with the keeper.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import httpx2

from bridge.local.epmd import Epmd
from bridge.local.errors import LocalError
from bridge.local.rabbitmq import PASSWORD, USER, RabbitNode
from bridge.local.redis import RedisNode
from tests.matrix.servers import FOR_A_RUN, Servers

PROJECT = Path(__file__).parent.parent
DATABASES = 16  # that a Redis server has
_START_TIMEOUT_S = 120.0
_POLL_S = 0.05
_ALL_RIGHTS = {"configure": ".*", "write": ".*", "read": ".*"}


@dataclass(frozen=True, kw_only=True)
class Addresses:
    """The addresses on which the servers of the run listen."""

    amqp_port: int
    management_port: int
    dist_port: int
    epmd_port: int
    redis_port: int


class SharedRabbit(RabbitNode):
    """The run's RabbitMQ, which the keeper runs. `amqp_url` names this worker's virtual host.

    No test may stop, kill or freeze it: a test that does so starts a node itself.
    """

    def __init__(self, folder: Path, servers: Servers, addresses: Addresses, vhost: str) -> None:
        epmd = Epmd(folder, addresses.epmd_port)
        super().__init__(folder, addresses.amqp_port, epmd=epmd, installation=servers.rabbitmq_installation)
        self.management_port = addresses.management_port
        self.dist_port = addresses.dist_port
        self.vhost = vhost

    def at(self, vhost: str) -> Self:
        """The same node, whose `amqp_url` names another virtual host."""
        other = copy(self)
        other.vhost = vhost
        return other

    @property
    def amqp_url(self) -> str:
        return vhost_url(self, self.vhost)

    @property
    def running(self) -> bool:
        return True

    @property
    def pid(self) -> int:
        raise _shared(self.title)

    def launch(self) -> None:
        raise _shared(self.title)

    def kill(self) -> None:
        raise _shared(self.title)

    def stop(self) -> None:
        raise _shared(self.title)


class SharedRedis(RedisNode):
    """The run's Redis, which the keeper runs. `url` names this worker's database.

    No test may stop, kill or freeze it.
    """

    def __init__(self, folder: Path, servers: Servers, addresses: Addresses, database: int) -> None:
        super().__init__(folder, addresses.redis_port, installation=servers.redis_installation)
        self._database = database

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/{self._database}"

    @property
    def running(self) -> bool:
        return True

    @property
    def pid(self) -> int:
        raise _shared(self.title)

    def launch(self) -> None:
        raise _shared(self.title)

    def kill(self) -> None:
        raise _shared(self.title)

    def stop(self) -> None:
        raise _shared(self.title)


def _shared(title: str) -> LocalError:
    return LocalError(f"{title} is shared by all tests of this run: a test that stops or starts one needs its own")


def vhost_url(rabbit: RabbitNode, vhost: str) -> str:
    """The address of one virtual host for AMQP clients, with user and password."""
    return f"amqp://{USER}:{PASSWORD}@127.0.0.1:{rabbit.port}/{vhost}"


def make_vhost(rabbit: RabbitNode, vhost: str) -> None:
    """Makes a virtual host on which the user guest may do everything."""
    with httpx2.Client(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        management.put(f"vhosts/{vhost}").raise_for_status()
        management.put(f"permissions/{vhost}/{USER}", json=_ALL_RIGHTS).raise_for_status()


def delete_vhost(rabbit: RabbitNode, vhost: str) -> None:
    """Deletes a virtual host, its queues and the connections to it."""
    with httpx2.Client(base_url=f"{rabbit.management_url}/api/", timeout=60) as management:
        management.delete(f"vhosts/{vhost}").raise_for_status()


@contextmanager
def joined(folder: Path) -> Iterator[Addresses]:
    """Starts the run's servers, or joins those that another worker started, and leaves them at the end.

    Raises:
        LocalError: the servers did not start.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "start").open("w") as start, (folder / "users").open("w") as users:
        fcntl.flock(start, fcntl.LOCK_EX)
        fcntl.flock(users, fcntl.LOCK_SH)
        if not _addresses_file(folder).exists():
            _start_keeper(folder)
        addresses = Addresses(**json.loads(_addresses_file(folder).read_text()))
        fcntl.flock(start, fcntl.LOCK_UN)
        yield addresses


def wait_until_gone(folder: Path) -> None:
    """Returns when the keeper of this folder has ended; at once if there is none."""
    try:
        with _keeper_file(folder).open("r") as keeper:
            fcntl.flock(keeper, fcntl.LOCK_SH)
    except FileNotFoundError:
        pass


def _addresses_file(folder: Path) -> Path:
    return folder / "addresses.json"


def _keeper_file(folder: Path) -> Path:
    """The file that the keeper locks while it runs. It is beside the folder, as the keeper removes the folder."""
    return folder.with_name(f"{folder.name}.keeper")


def _start_keeper(folder: Path) -> None:
    log_file = folder / "keeper.log"
    with log_file.open("ab") as log:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.shared_servers", str(folder)],
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    give_up_at = time.monotonic() + _START_TIMEOUT_S
    while not _addresses_file(folder).exists():
        if keeper.poll() is not None or time.monotonic() > give_up_at:
            keeper.kill()
            raise LocalError(f"The servers of the run did not start:\n{log_file.read_text(errors='replace')}")
        time.sleep(_POLL_S)
    keeper.returncode = 0  # it outlives this process, and Popen's destructor would complain


def keep(folder: Path) -> None:
    """Runs the servers until no worker uses them."""
    servers = Servers.from_environment()
    with _keeper_file(folder).open("w") as keeper, (folder / "users").open("w") as users:
        fcntl.flock(keeper, fcntl.LOCK_EX)
        rabbit = servers.rabbit_node(folder / "rabbitmq", advanced=FOR_A_RUN)
        # No test kills this Redis, so none needs each write on the disk before its answer.
        redis = servers.redis_node(folder / "redis", appendfsync="everysec")
        try:
            with ThreadPoolExecutor() as threads:
                for starting in [threads.submit(server.start) for server in (rabbit, redis)]:
                    starting.result()
            addresses = Addresses(
                amqp_port=rabbit.port,
                management_port=rabbit.management_port,
                dist_port=rabbit.dist_port,
                epmd_port=rabbit._epmd.port,
                redis_port=redis.port,
            )
            draft = folder / "addresses.tmp"
            draft.write_text(json.dumps(asdict(addresses)))
            draft.replace(_addresses_file(folder))
            fcntl.flock(users, fcntl.LOCK_EX)
        finally:
            _addresses_file(folder).unlink(missing_ok=True)
            # Nobody needs their data, so a graceful stop would only cost time.
            rabbit.kill()
            redis.kill()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
