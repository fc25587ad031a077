"""Tests that no log, answer or error contains a password, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
import pytest_asyncio

from bridge.local.bridge import BridgeProcess
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.command import command as run
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.rabbit_users import add_user, carry_out, delete_user
from tests.waiting import pause

USER = "keeper"
# Each has characters that are special in URLs, and one that is not ASCII.
BROKER_PASSWORD = "br/0k:er@p#w?d%41&ü"
STORE_PASSWORD = "st/0r:e@p#w?d%42&ß"
WRONG_PASSWORD = "wr/0n:g@p#w?d%43&ö"
SECRETS = (BROKER_PASSWORD, STORE_PASSWORD, WRONG_PASSWORD)
# Each password in plain and percent-encoded form, and the parts that encoding leaves unchanged.
FORBIDDEN = {
    form for secret in SECRETS for form in (secret, quote(secret, safe=""), quote(secret), secret[:4], secret[5:8])
}


def assert_silent(text: str) -> None:
    shown = [form for form in FORBIDDEN if form in text]
    assert not shown, text


@dataclass(frozen=True, kw_only=True, slots=True)
class Guarded:
    """Servers that require passwords."""

    rabbit: RabbitNode
    redis: RedisNode
    folder: Path

    def settings(self, broker: str = BROKER_PASSWORD, store: str = STORE_PASSWORD, **other: str) -> dict[str, str]:
        login = f"{USER}:{quote(broker, safe='')}"
        return {
            "BRIDGE_AMQP_URL": f"amqp://{login}@127.0.0.1:{self.rabbit.port}/",
            "BRIDGE_REDIS_URL": f"redis://:{quote(store, safe='')}@127.0.0.1:{self.redis.port}/0",
            "BRIDGE_MANAGEMENT_URL": f"http://{login}@127.0.0.1:{self.rabbit.management_port}",
            **PATIENT,
            **other,
        }


class GuardedRedis(RedisNode):
    def configuration(self) -> str:
        return super().configuration() + f'requirepass "{STORE_PASSWORD}"\n'

    def is_ready(self) -> bool:
        return "NOAUTH" in self._ask("PING")


@pytest.fixture(scope="module")
def guarded(local_dir: Path, rabbit: RabbitNode) -> Iterator[Guarded]:
    folder = local_dir / "guarded"
    add_user(rabbit, USER, BROKER_PASSWORD, tags="administrator")
    carry_out(rabbit, "/", "set_permissions", USER, ".*", ".*", ".*")
    with GuardedRedis(folder / "redis") as redis:
        yield Guarded(rabbit=rabbit, redis=redis, folder=folder)
    delete_user(rabbit, USER)


class Watched:
    """A bridge whose answers and log are kept."""

    def __init__(self, folder: Path, settings: Mapping[str, str], program: type[BridgeProcess] = ForkedBridge) -> None:
        port = free_ports(1)[0]
        self.process = program(folder / f"bridge-{port}.log", port, {"BRIDGE_LOG_LEVEL": "debug", **settings})
        self._answers: list[str] = []

    async def ask(self, method: str, path: str, document: object = None) -> int:
        """Calls once the bridge listens. Returns the status."""
        async with httpx2.AsyncClient(base_url=self.process.url, timeout=30) as client:
            while True:
                try:
                    answer = await client.request(method, path, json=document)
                except httpx2.ConnectError:
                    await pause()
                else:
                    self._answers.append(answer.text)
                    return answer.status_code

    async def ask_all(self) -> set[int]:
        topic = "/v1/topics/secrets"
        return {
            await self.ask("GET", "/health/ready"),
            await self.ask("POST", f"{topic}/messages", {"body": 1, "delay": "1h"}),
            await self.ask("POST", f"{topic}/pull", {"wait": 0}),
            await self.ask("GET", topic),
            await self.ask("GET", "/metrics"),
        }

    def output(self) -> str:
        return "\n".join([*self._answers, self.process.log_file.read_text()])


@pytest_asyncio.fixture
async def watch(guarded: Guarded) -> AsyncIterator[type[Watched]]:
    started: list[Watched] = []

    class Started(Watched):
        def __init__(
            self, folder: Path, settings: Mapping[str, str], program: type[BridgeProcess] = ForkedBridge
        ) -> None:
            super().__init__(folder, settings, program)
            started.append(self)
            self.process.launch()

    yield Started
    for one in started:
        await asyncio.to_thread(one.process.stop)
        assert_silent(one.output())


async def until_ready(bridge: Watched) -> None:
    while await bridge.ask("GET", "/health/ready") != 200:
        await pause()


async def test_bridge_with_special_characters_in_passwords_works_and_shows_none(
    guarded: Guarded, watch: type[Watched]
) -> None:
    bridge = watch(guarded.folder, guarded.settings(), BridgeProcess)  # a forked one has the command of its parent
    await until_ready(bridge)
    assert await bridge.ask_all() == {200, 201}
    # The bridge could log in at the management API.
    assert "management API" not in bridge.output()
    command = await asyncio.to_thread(Path(f"/proc/{bridge.process.pid}/cmdline").read_text)
    assert "serve" in command
    assert_silent(command)


@pytest.mark.parametrize("wrong", [{"broker": WRONG_PASSWORD}, {"store": WRONG_PASSWORD}])
async def test_wrong_password_is_reported_and_not_shown(
    guarded: Guarded, watch: type[Watched], wrong: dict[str, str]
) -> None:
    bridge = watch(guarded.folder, guarded.settings(**wrong))
    assert 503 in await bridge.ask_all()


async def test_management_api_that_refuses_the_login_is_reported_by_address(
    guarded: Guarded, watch: type[Watched]
) -> None:
    management = guarded.settings(broker=WRONG_PASSWORD)["BRIDGE_MANAGEMENT_URL"]
    bridge = watch(guarded.folder, guarded.settings(BRIDGE_MANAGEMENT_URL=management))
    await until_ready(bridge)
    output = bridge.output()
    assert "401" in output
    assert f"http://127.0.0.1:{guarded.rabbit.management_port}/api/" in output


@pytest.mark.parametrize("name", ["BRIDGE_AMQP_URL", "BRIDGE_REDIS_URL"])
async def test_wrong_port_is_reported_and_no_password_shown(guarded: Guarded, watch: type[Watched], name: str) -> None:
    settings = guarded.settings()
    right = str(guarded.rabbit.port if name == "BRIDGE_AMQP_URL" else guarded.redis.port)
    settings[name] = settings[name].replace(f":{right}/", f":{free_ports(1)[0]}/")
    assert 503 in await watch(guarded.folder, settings).ask_all()


async def test_killed_server_is_reported_and_no_password_shown(guarded: Guarded, watch: type[Watched]) -> None:
    bridge = watch(guarded.folder, guarded.settings())
    await until_ready(bridge)
    await asyncio.to_thread(guarded.redis.kill)
    try:
        assert 503 in await bridge.ask_all()
    finally:
        await asyncio.to_thread(guarded.redis.start)
    await until_ready(bridge)


BAD_URLS = [
    ("BRIDGE_AMQP_URL", f"amqp://{USER}:{BROKER_PASSWORD}@127.0.0.1:5672/"),
    ("BRIDGE_AMQP_URL", f"http://{USER}:{quote(BROKER_PASSWORD)}@127.0.0.1:5672/"),
    ("BRIDGE_AMQP_URL", f"amqp://{USER}:br0k@127.0.0.1:123456/"),
    ("BRIDGE_REDIS_URL", f"redis://:{STORE_PASSWORD}@127.0.0.1:6379/0"),
    ("BRIDGE_REDIS_URL", f"http://:{quote(STORE_PASSWORD)}@127.0.0.1:6379/0"),
    ("BRIDGE_MANAGEMENT_URL", f"http://{USER}:{BROKER_PASSWORD}@127.0.0.1:15672"),
    ("BRIDGE_MANAGEMENT_URL", f"amqp://{USER}:{quote(BROKER_PASSWORD)}@127.0.0.1:15672"),
]


@pytest.mark.parametrize(
    ("command", "name", "url"),
    [*(("serve", *bad) for bad in BAD_URLS), ("audit", *BAD_URLS[3]), ("topology verify", *BAD_URLS[0])],
)
async def test_malformed_url_is_reported_and_not_shown(command: str, name: str, url: str) -> None:
    ended = await run(*command.split(), settings={"COLUMNS": "200", name: url})
    assert ended.exit_code == 2
    assert (
        "the URL must have the form" in ended.stderr
        or "the URL must begin with one of" in ended.stderr
        or "of the URL is malformed" in ended.stderr
    )
    assert "Traceback" not in ended.stderr
    assert_silent(ended.stdout + ended.stderr)


@pytest.mark.parametrize("command", [("audit",), ("topology", "verify"), ("topology", "apply")], ids=" ".join)
async def test_commands_show_no_password_whether_or_not_login_succeeds(
    guarded: Guarded, command: tuple[str, ...]
) -> None:
    for broker, codes in ((BROKER_PASSWORD, (0, 1)), (WRONG_PASSWORD, (1,))):
        ended = await run(*command, settings=guarded.settings(broker=broker))
        assert ended.exit_code in codes, ended.stderr
        assert_silent(ended.stdout + ended.stderr)
