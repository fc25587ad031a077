"""Tests that the stack of `make run` keeps its servers running and says where they are."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bridge.local import LocalError, RabbitNode, RedisNode
from bridge.local.bridge import BridgeProcess
from bridge.local.stack import Stack, StackSettings, run
from bridge.local.welcome import welcome

# Answers in place of the bridge: these tests are about the processes, not about their work.
ANSWERING = """
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
HTTPServer(("127.0.0.1", int(os.environ["BRIDGE_HTTP_PORT"])), Ready).serve_forever()
"""


@pytest.fixture(autouse=True)
def answering_bridge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BridgeProcess, "command", lambda self: [sys.executable, "-c", ANSWERING])


@pytest.fixture
def stack(tmp_path: Path, rabbit: RabbitNode) -> Iterator[Stack]:
    """A stack that starts a Redis and a bridge itself."""
    stack = Stack(StackSettings(http_port=0, amqp_url=rabbit.amqp_url, data_dir=tmp_path))
    stack.start()
    yield stack
    stack.stop()


def run_file(stack: Stack) -> dict[str, Any]:
    content = json.loads(stack.run_file.read_text())
    assert isinstance(content, dict)
    return content


def test_the_run_file_says_where_everything_is(stack: Stack, rabbit: RabbitNode) -> None:
    assert stack.redis is not None
    assert run_file(stack) == {
        "http": stack.http_url,
        "amqp": rabbit.amqp_url,
        "redis": stack.redis.url,
        "management": None,
        "pids": {"rabbitmq": None, "redis": stack.redis.pid, "bridge": [stack.bridge.pid]},
    }


def test_a_killed_bridge_is_started_again_on_the_same_port(stack: Stack) -> None:
    before = run_file(stack)
    stack.bridge.kill()
    stack.revive()
    stack.bridge.wait_until_ready()
    after = run_file(stack)
    assert after["http"] == before["http"]
    assert after["pids"]["bridge"] != before["pids"]["bridge"]


def test_a_killed_redis_is_started_again_on_the_same_port(stack: Stack) -> None:
    assert stack.redis is not None
    before = run_file(stack)
    os.kill(stack.redis.pid, signal.SIGKILL)
    stack.redis.wait_until_stopped()
    stack.revive()
    stack.redis.wait_until_ready()
    after = run_file(stack)
    assert after["redis"] == before["redis"]
    assert after["pids"]["redis"] != before["pids"]["redis"]


def test_servers_that_are_given_are_not_started(tmp_path: Path, rabbit: RabbitNode, redis_node: RedisNode) -> None:
    stack = Stack(StackSettings(amqp_url=rabbit.amqp_url, redis_url=redis_node.url, http_port=0, data_dir=tmp_path))
    assert stack.stores == []


def test_stopping_ends_all_and_removes_the_run_file(stack: Stack) -> None:
    stack.stop()
    assert not any(server.running for server in [*stack.stores, stack.bridge])
    assert not stack.run_file.exists()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_stops_all_with_exit_code_0(
    tmp_path: Path, rabbit: RabbitNode, redis_node: RedisNode, ending: signal.Signals
) -> None:
    settings = StackSettings(amqp_url=rabbit.amqp_url, redis_url=redis_node.url, http_port=0, data_dir=tmp_path)
    program = f"""
import sys
from pathlib import PosixPath
from bridge.local.bridge import BridgeProcess
from bridge.local.stack import StackSettings, run
BridgeProcess.command = lambda self: [sys.executable, "-c", {ANSWERING!r}]
run({settings!r})
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Ctrl-C stops"):
                break
        (pid,) = json.loads((tmp_path / "run.json").read_text())["pids"]["bridge"]
        process.send_signal(ending)
        assert process.wait(30) == 0
    assert not (tmp_path / "run.json").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_port_in_use_is_named_with_the_setting_that_changes_it(tmp_path: Path, redis_node: RedisNode) -> None:
    with pytest.raises(LocalError, match=f"Port {redis_node.port} is in use.*BRIDGE_HTTP_PORT"):
        Stack(StackSettings(http_port=redis_node.port, data_dir=tmp_path))


def test_a_second_stack_on_the_same_data_is_refused(tmp_path: Path) -> None:
    program = f"""
import fcntl, time
lock = open({str(tmp_path / "run.lock")!r}, "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(LocalError, match="already runs"):
            run(StackSettings(data_dir=tmp_path))
        other.kill()


@pytest.mark.parametrize(
    ("taken", "named"),
    [("folder", ""), ("run.lock", "run.lock"), ("ports.json", "ports.json"), ("redis", "redis"), ("logs", "logs")],
)
def test_a_folder_that_cannot_be_used_is_one_line_with_path_and_remedy(
    tmp_path: Path, rabbit: RabbitNode, taken: str, named: str
) -> None:
    folder = tmp_path / "folder"
    if taken == "folder":
        folder.touch()
    elif "." in taken:
        (folder / taken).mkdir(parents=True)  # where a file has to be, also for the user root
    else:
        folder.mkdir()
        (folder / taken).touch()
    ended = make_run(folder, BRIDGE_AMQP_URL=rabbit.amqp_url)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith(f"delaybridge: can't write {folder / named}: ")
    assert "set BRIDGE_LOCAL_DIR to a folder" in line


def test_a_rabbitmq_that_cannot_start_is_one_line_with_log_and_remedy(tmp_path: Path, redis_node: RedisNode) -> None:
    data = tmp_path / "rabbitmq"
    data.mkdir()
    (data / "mnesia").touch()
    ended = make_run(tmp_path, BRIDGE_REDIS_URL=redis_node.url)
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("delaybridge: RabbitMQ ended with code 1 while starting: ")
    assert "failed_to_create_feature_flags_file_directory" in line
    assert line.endswith(
        "Set BRIDGE_LOCAL_DIR to an empty folder, or BRIDGE_AMQP_URL to a RabbitMQ that runs "
        f"(log: {data / 'log' / 'rabbitmq.out'})"
    )
    assert not list(tmp_path.parent.glob("erl_crash.dump"))


def test_a_bridge_with_a_wrong_setting_is_one_line_that_names_it(
    tmp_path: Path, rabbit: RabbitNode, redis_node: RedisNode
) -> None:
    ended = make_run(
        tmp_path, BRIDGE_AMQP_URL=rabbit.amqp_url, BRIDGE_REDIS_URL=redis_node.url, BRIDGE_DELIVERY_LIMIT="many"
    )
    assert ended.returncode == 1
    (line,) = ended.stderr.splitlines()
    assert line.startswith("delaybridge: Bridge ended with code 2 while starting: BRIDGE_DELIVERY_LIMIT: ")
    assert line.endswith(f"Correct its settings (log: {tmp_path / 'logs' / 'bridge.log'})")


def make_run(folder: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Runs `make run` on the folder, which is to fail."""
    environment = {**os.environ, "BRIDGE_HTTP_PORT": "0", "BRIDGE_LOCAL_DIR": str(folder), **settings}
    program = [sys.executable, "-m", "bridge.local"]
    environment["PYTHONPATH"] = str(Path(__file__).parents[3])
    return subprocess.run(
        program, env=environment, cwd=folder.parent, capture_output=True, text=True, timeout=100, check=False
    )


def test_settings_come_from_the_environment() -> None:
    assert StackSettings.from_environment({}) == StackSettings()
    given = {"BRIDGE_HTTP_PORT": "9000", "BRIDGE_REDIS_URL": "redis://elsewhere"}
    assert StackSettings.from_environment(given) == StackSettings(http_port=9000, redis_url="redis://elsewhere")


@pytest.mark.parametrize("value", ["http", "65536"])
def test_a_port_that_is_no_number_in_range_is_named(value: str) -> None:
    with pytest.raises(LocalError, match=f"BRIDGE_HTTP_PORT is '{value}'"):
        StackSettings.from_environment({"BRIDGE_HTTP_PORT": value})


def test_the_printed_example_is_three_commands_of_this_installation() -> None:
    url = "http://127.0.0.1:8081"
    text = welcome(url, amqp_url="amqp://", management_url=None, logs=Path("logs"))
    commands = [shlex.split(line) for line in text.splitlines() if line.endswith(f" --url {url}")]
    assert all(Path(program).samefile(Path(sys.executable).parent / "delaybridge") for program, *_ in commands)
    assert [arguments[:-2] for _, *arguments in commands] == [
        ["send", "hello", '{"hello": "world"}', "--id", "hello-1", "--delay", "5s"],
        ["pull", "hello", "--wait", "10s"],
        ["ack", "hello", "hello-1"],
    ]
