"""Tests that Celery's delayed tasks wait in a bridge, with a real worker: listed, moved, deleted, run, retried."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.exceptions import TaskRevokedError
from kombu import Connection, Exchange, Queue

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from delaybridge_client import InvalidArgument, NotFound, SyncClient
from delaybridge_client.celery import DelayedTask, DelayedTasks, install
from delaybridge_client.celery.delays import Destination, delayed_headers, due_at, key_before_native_delay, topic_of
from tests.docs.documents import PROJECT
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.shared_servers import vhost_url
from tests.vhosts import give_back_vhost, take_vhost

pytestmark = [
    # Celery's result backend calls a method that redis-py has replaced.
    pytest.mark.filterwarnings("ignore:Call to deprecated setex:DeprecationWarning"),
]

NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
LEAST = timedelta(seconds=5)
TWO_HOURS = 7_200
RESULT_S = 50


@contextmanager
def worker(environment: dict[str, str]) -> Iterator[None]:
    """A Celery worker of the app, in a process of its own."""
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=WARNING"]
    command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "tests.clients.python.celery_app", "worker"]
    process = subprocess.Popen([*command, "--pool=solo", *quiet], cwd=PROJECT, env=environment)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def broker(rabbit: RabbitNode) -> Iterator[str]:
    """The address of a virtual host that nothing else uses, as workers declare queues of their own."""
    vhost = take_vhost(rabbit)
    yield vhost_url(rabbit, vhost)
    give_back_vhost(rabbit, vhost)


@pytest.fixture(scope="module")
def celery_bridge(broker: str, redis_node: RedisNode, local_dir: Path) -> Iterator[ForkedBridge]:
    """A bridge on that virtual host."""
    given = {"BRIDGE_AMQP_URL": broker, "BRIDGE_REDIS_URL": redis_node.url, "BRIDGE_REDIS_PREFIX": "celery", **PATIENT}
    bridge = ForkedBridge(local_dir / "celery" / "bridge.log", free_ports(1)[0], given)
    bridge.start()
    yield bridge
    bridge.kill()


@pytest.fixture(scope="module")
def shop(celery_bridge: ForkedBridge, broker: str, redis_node: RedisNode) -> Iterator[Any]:
    """The app's module, with a worker that runs."""
    os.environ.update({"CELERY_TEST_BROKER": broker, "CELERY_TEST_BACKEND": redis_node.url})
    from tests.clients.python import celery_app  # noqa: PLC0415 - it reads the environment, as an application does

    with worker(dict(os.environ)):
        yield celery_app
    celery_app.app.close()


@pytest.fixture(scope="module")
def tasks(shop: Any, celery_bridge: ForkedBridge) -> Iterator[DelayedTasks]:
    with SyncClient(celery_bridge.url) as client:
        yield DelayedTasks(shop.app, client)


def test_task_in_two_hours_is_listed_moved_and_runs_as_an_ordinary_task(shop: Any, tasks: DelayedTasks) -> None:
    eta = datetime.now(UTC) + timedelta(seconds=TWO_HOURS)
    result = shop.shown.apply_async((1, "ä"), {"none": None}, eta=eta, time_limit=30, expires=3 * 3_600)
    found = tasks.look_up(result.id)
    assert (found.name, found.args, found.kwargs) == (shop.shown.name, [1, "ä"], {"none": None})
    assert timedelta() <= found.eta - eta < timedelta(milliseconds=1)
    assert [task.id for task in tasks.waiting()] == [result.id]
    assert tasks.move(result.id, countdown=TWO_HOURS / 2).eta < eta
    tasks.move(result.id, countdown=0)
    got = result.get(timeout=RESULT_S)
    assert (got["args"], got["kwargs"], got["id"]) == ([1, "ä"], {"none": None}, result.id)
    assert (got["eta"], got["retries"], got["timelimit"], got["routing_key"]) == (None, 0, [30, None], "shop")
    assert got["correlation_id"] == got["root_id"] == result.id
    assert tasks.look_up(result.id).released
    assert list(tasks.waiting()) == []


def test_deleted_task_never_runs_and_its_result_says_so(shop: Any, tasks: DelayedTasks) -> None:
    result = shop.shown.apply_async(countdown=TWO_HOURS)
    assert tasks.delete(result.id).state == "deleted"
    with pytest.raises(TaskRevokedError, match="deleted before it was due"):
        result.get(timeout=RESULT_S)
    assert result.state == "REVOKED"


def test_task_runs_at_its_moment_and_not_before(shop: Any) -> None:
    begun, delay = datetime.now(UTC), timedelta(seconds=1.5)
    result = shop.shown.apply_async(countdown=delay.total_seconds())
    got = result.get(timeout=RESULT_S)
    assert (got["eta"], "x-delay-id" in got["headers"]) == (None, True)
    assert datetime.now(UTC) - begun >= delay


def test_retry_of_a_delayed_task_waits_in_the_bridge_under_the_same_id(shop: Any, tasks: DelayedTasks) -> None:
    result = shop.failing_once.apply_async((float(TWO_HOURS),), countdown=TWO_HOURS)
    tasks.move(result.id, countdown=0)
    again = _until(tasks, result.id, lambda task: task.message.headers["retries"] == 1)
    assert again.eta > datetime.now(UTC) + timedelta(hours=1)
    assert "x-delay-attempt" not in again.message.headers
    tasks.move(result.id, countdown=0)
    assert result.get(timeout=RESULT_S) == 1


def test_second_task_of_an_id_is_found_when_the_first_has_gone(shop: Any, tasks: DelayedTasks) -> None:
    # As a retry that overtakes the end of the record before it: the bridge gives it another id.
    result, _ = (shop.shown.apply_async((n,), task_id="twice", countdown=TWO_HOURS + n) for n in (1, 2))
    _until(tasks, "twice", lambda _: len(list(tasks.waiting())) == 2)
    assert {task.id for task in tasks.waiting()} == {"twice"}
    tasks.move("twice", countdown=0)
    assert result.get(timeout=RESULT_S)["args"] == [1]
    second = _until(tasks, "twice", lambda task: task.args == [2])
    assert (second.state, second.message.id != "twice") == ("waiting", True)
    assert tasks.delete("twice").state == "deleted"
    assert list(tasks.waiting()) == []


@pytest.mark.parametrize("queue", ["mails", "reports"])
def test_task_of_another_queue_reaches_that_queue(shop: Any, tasks: DelayedTasks, queue: str) -> None:
    # `reports` is a quorum queue on a topic exchange, for which Celery has a delay of its own.
    result = shop.shown.apply_async(queue=queue, countdown=TWO_HOURS)
    assert tasks.look_up(result.id, queue=queue).message.topic == f"celery/{queue}"
    with pytest.raises(NotFound):
        tasks._client.look_up("celery/shop", result.id)
    tasks.move(result.id, countdown=0, queue=queue)
    assert result.get(timeout=RESULT_S)["routing_key"] == f"{queue}.out"


def test_short_delays_and_none_are_left_to_celery(shop: Any, tasks: DelayedTasks) -> None:
    assert shop.shown.delay().get(timeout=RESULT_S)["headers"] == []
    brief = shop.shown.apply_async(countdown=0.5).get(timeout=RESULT_S)
    assert (brief["eta"] is not None, brief["headers"]) == (True, [])


def test_countdown_of_the_least_delay_waits_in_the_bridge(shop: Any, tasks: DelayedTasks) -> None:
    least = shop.app.conf.delaybridge_least
    sent = [shop.shown.apply_async(countdown=least) for _ in range(3)]
    assert [tasks.look_up(one.id).id for one in sent] == [one.id for one in sent]


def test_example_sends_lists_and_deletes_a_task(broker: str, celery_bridge: ForkedBridge) -> None:
    example = PROJECT / "clients" / "python" / "examples" / "celery_later.py"
    done = subprocess.run([sys.executable, str(example), broker, celery_bridge.url], check=True, stdout=subprocess.PIPE)
    assert done.stdout.decode().splitlines() == ["waiting", "shop.remind [42]", "deleted"]


def test_queue_without_an_exchange_is_refused_by_name(shop: Any) -> None:
    nameless = Queue("nameless", Exchange(""), routing_key="nameless")
    with pytest.raises(InvalidArgument, match="queue: 'nameless' has no exchange"):
        shop.shown.apply_async(queue=nameless, countdown=TWO_HOURS)


def test_broker_without_confirms_is_refused(broker: str) -> None:
    app = Celery("other", broker=broker)
    install(app)
    app.conf.broker_transport_options = {}
    with pytest.raises(InvalidArgument, match="confirm_publish"):
        app.send_task("any", countdown=TWO_HOURS)
    app.close()


def test_bridge_that_has_declared_nothing_is_an_error(broker: str) -> None:
    app = Celery("other", broker=broker)
    install(app, exchange="no-such-bridge.in")
    with Connection(broker) as connection, pytest.raises(connection.channel_errors, match="no-such-bridge"):
        app.send_task("any", countdown=TWO_HOURS)
    app.close()


@pytest.mark.parametrize(
    ("eta", "expected"),
    [
        (None, None),
        ("2026-12-01T08:00:00+00:00", None),
        ("2026-12-01T09:00:04+00:00", None),
        ("2026-12-01T09:00:05+00:00", NOW + LEAST),
        ("2026-12-01T12:00:00+01:00", NOW + timedelta(hours=2)),
        ("2026-12-01T11:00:00", NOW + timedelta(hours=2)),  # Celery takes it for UTC
    ],
)
def test_task_waits_in_the_bridge_from_the_least_delay_on(eta: str | None, expected: datetime | None) -> None:
    assert due_at({"eta": eta}, now=NOW, least=LEAST) == expected


def test_eta_beyond_999_days_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"eta: 2029-11-29T09:00:00\S* is more than 999 days ahead"):
        due_at({"eta": "2029-11-29T09:00:00+00:00"}, now=NOW, least=LEAST)


def test_key_of_celerys_own_delay_is_read_back() -> None:
    digits = ".".join(f"{TWO_HOURS:028b}")
    assert key_before_native_delay("celery_delayed_27", f"{digits}.mails.out") == "mails.out"
    assert key_before_native_delay("mails", "mails.out") is None


def test_moment_of_a_task_is_never_earlier_than_its_eta() -> None:
    moment = NOW + timedelta(microseconds=1)
    headers = delayed_headers({"id": "t-1"}, moment, Destination("shop", "shop", "shop"))
    assert headers["x-deliver-at"] == 1_796_115_600_001


@pytest.mark.parametrize("queue", ["", "a/b", "ä", "q" * 101])
def test_queue_whose_name_can_be_no_topic_is_refused(queue: str) -> None:
    with pytest.raises(InvalidArgument, match="queue"):
        topic_of("celery", queue)


def _until(tasks: DelayedTasks, task_id: str, is_it: Any) -> DelayedTask:
    while not is_it(found := tasks.look_up(task_id)):
        pass
    return found
