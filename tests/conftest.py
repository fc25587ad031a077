"""Provides the servers that tests run against: private ones on free ports, started once a run.

The workers of a run share one RabbitMQ and one Redis (tests/shared_servers.py). Each worker has a virtual host and a
Redis database to itself.

BRIDGE_TEST_RABBITMQ and BRIDGE_TEST_REDIS_SERVER choose other versions than this machine's (tests/matrix/servers.py).
BRIDGE_TEST_REDIS chooses how Redis runs: single, sentinel or cluster. Only a single one is shared.
"""

from __future__ import annotations

import tests.simulate.installed  # noqa: F401 - before other modules take functions of `time` by name

# isort: split
import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from bridge.local.errors import LocalError
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.local.redis_cluster import RedisCluster
from bridge.local.redis_sentinels import RedisSentinels
from tests.forked_bridge import PATIENT, SHARED, ForkedBridge
from tests.forked_worker import specification
from tests.forking import forking
from tests.http_clients import close_all_though_cancelled, share_default_trust
from tests.log_watch import judged_module, judged_test, log_watch  # noqa: F401 - fixtures for every test
from tests.matrix.servers import Servers
from tests.nightly import unchanged
from tests.run_folder import run_folder
from tests.schedule import ByFile, turn
from tests.shared_servers import (
    DATABASES,
    Addresses,
    SharedRabbit,
    SharedRedis,
    joined,
    make_vhost,
    wait_until_gone,
)

PROJECT = Path(__file__).parent.parent

# No example has a time limit: it may ask servers, and a pause of the machine is not its fault. A rare failure prints a
# line that repeats it elsewhere, as examples are random.
settings.register_profile("without deadline", deadline=None, print_blob=True)
settings.load_profile("without deadline")

SERVERS = Servers.from_environment()
REDIS = {"single": None, "sentinel": RedisSentinels, "cluster": RedisCluster}[
    os.environ.get("BRIDGE_TEST_REDIS") or "single"
]
RUN_FOLDER = pytest.StashKey[Path]()
LEFT_OUT = pytest.StashKey[list[Path]]()
EARLY = pytest.StashKey[ExitStack]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full-size", action="store_true", help="run long proofs in full in place of their short forms")
    parser.addoption("--nightly", action="store_true", help="run the tests of unchanged tools too (tests/nightly.py)")


def pytest_configure(config: pytest.Config) -> None:
    """Chooses the folder of the run's servers, and the tests that a whole run leaves out. The process that starts the
    workers names both to them."""
    close_all_though_cancelled()
    share_default_trust()
    given = getattr(config, "workerinput", {}).get("run_folder")
    config.stash[RUN_FOLDER] = Path(given) if given else run_folder()
    config.stash[EARLY] = ExitStack()
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    config.stash[LEFT_OUT] = unchanged() if whole and not config.option.nightly else []
    if given:
        config.stash[LEFT_OUT] = [Path(path) for path in config.workerinput["left_out"]]  # type: ignore[attr-defined]
    elif whole and getattr(config.option, "numprocesses", None) and not getattr(config.option, "cov_source", None):
        prepare(config)  # coverage would not see the imports of a forked worker


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    return True if collection_path in config.stash[LEFT_OUT] else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collects the tests without the garbage collector: they are a million objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def prepare(config: pytest.Config) -> None:
    """Collects the tests once, in the process that then forks the workers, and starts the run's servers meanwhile. One
    process imports the bridge for all workers."""
    given = [argument for argument in config.invocation_params.args if not argument.startswith("-v")]
    folder, early = config.stash[RUN_FOLDER], config.stash[EARLY]
    bridges, workers = folder / "bridges", folder / "workers"
    os.environ[SHARED] = str(bridges)
    of_bridges = early.enter_context(forking("tests.forked_bridge", bridges))
    of_workers = early.enter_context(forking("tests.forked_worker", workers, *given))
    with suppress(LocalError):  # a test that needs servers will say why they did not start
        early.enter_context(joined(folder / "servers"))
    of_bridges.readline()
    if of_workers.readline():
        config.option.tx = [specification(workers)] * len(config.option.tx)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput["run_folder"] = str(node.config.stash[RUN_FOLDER])
    node.workerinput["left_out"] = [str(path) for path in node.config.stash[LEFT_OUT]]


def pytest_unconfigure(config: pytest.Config) -> None:
    """Returns when the run's servers have ended."""
    if not hasattr(config, "workerinput") and RUN_FOLDER in config.stash:
        config.stash[EARLY].close()
        wait_until_gone(config.stash[RUN_FOLDER] / "servers")
        shutil.rmtree(config.stash[RUN_FOLDER], ignore_errors=True)


def pytest_report_header(config: pytest.Config) -> list[str]:
    versions = [f"servers: RabbitMQ {' and '.join(SERVERS.versions())}"] if Servers() != SERVERS else []
    names = [path.relative_to(PROJECT / "tests").as_posix() for path in config.stash[LEFT_OUT]]
    return [*versions, *([f"unchanged since they passed, left out: {', '.join(names)}"] if names else [])]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return ByFile(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first, so that no worker is left with one at the end."""
    items.sort(key=lambda item: turn(item.path.relative_to(PROJECT).as_posix()))


@pytest.fixture(scope="session")
def servers() -> Servers:
    """The versions of RabbitMQ and Redis that this session uses, for tests that start their own servers."""
    return SERVERS


@pytest.fixture(scope="session")
def worker(request: pytest.FixtureRequest) -> int:
    """The number of this xdist worker, from 0."""
    name: str = getattr(request.config, "workerinput", {}).get("workerid", "gw0")
    return int(name.removeprefix("gw"))


@pytest.fixture(scope="session")
def local_dir(pytestconfig: pytest.Config, worker: int) -> Iterator[Path]:
    """A folder for the servers that this worker starts itself; removed afterwards."""
    folder = pytestconfig.stash[RUN_FOLDER] / f"worker-{worker}"
    folder.mkdir(parents=True)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def run_servers(pytestconfig: pytest.Config) -> Iterator[tuple[Path, Addresses]]:
    """The folder and the addresses of the servers that all workers share."""
    folder = pytestconfig.stash[RUN_FOLDER] / "servers"
    with joined(folder) as addresses:
        yield folder, addresses


@pytest.fixture(scope="session")
def rabbit(run_servers: tuple[Path, Addresses], servers: Servers, worker: int) -> SharedRabbit:
    """The run's RabbitMQ, with a virtual host of this worker. A test may not stop, kill or reconfigure it."""
    folder, addresses = run_servers
    node = SharedRabbit(folder / "rabbitmq", servers, addresses, f"worker-{worker}")
    make_vhost(node, node.vhost)
    return node


@pytest.fixture(scope="session")
def redis_node(
    local_dir: Path, run_servers: tuple[Path, Addresses], servers: Servers, worker: int
) -> Iterator[RedisNode | RedisSentinels | RedisCluster]:
    """The run's Redis, with a database of this worker. If BRIDGE_TEST_REDIS asks for several servers, this worker has
    its own. A test may not stop, kill or reconfigure it."""
    if REDIS is None:
        folder, addresses = run_servers
        assert worker < DATABASES, f"Redis has {DATABASES} databases: run at most as many workers"
        yield SharedRedis(folder / "redis", servers, addresses, worker)
        return
    with REDIS(local_dir / "redis", installation=servers.redis_installation, program=servers.redis_program) as several:
        yield several


@pytest.fixture(scope="session")
def bridge(local_dir: Path, rabbit: RabbitNode, redis_node: RedisNode) -> Iterator[ForkedBridge]:
    """A bridge process on this worker's virtual host and database."""
    process = ForkedBridge(
        local_dir / "bridge" / "bridge.log",
        free_ports(1)[0],
        {
            "BRIDGE_AMQP_URL": rabbit.amqp_url,
            "BRIDGE_REDIS_URL": redis_node.url,
            "BRIDGE_MANAGEMENT_URL": rabbit.management_url,
            "BRIDGE_VERIFY_EVERY": "0",  # the tests of a run leave hundreds of topics
            **PATIENT,
        },
    )
    process.start()
    yield process
    process.kill()


@pytest.fixture(scope="session")
def bridge_url(bridge: ForkedBridge) -> str:
    """The address of this worker's bridge, without a slash at its end."""
    return bridge.url
