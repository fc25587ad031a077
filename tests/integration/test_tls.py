"""Tests TLS to RabbitMQ and Redis and on the bridge's own port, with certificate authorities made here."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx2
import pytest
import pytest_asyncio
import trustme

from bridge.cli import failures
from bridge.local.certificates import Certificates
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.command import command
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.matrix.servers import Servers
from tests.proxy import Proxy
from tests.waiting import pause

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


class Authority:
    """A certificate authority. Its certificates are files in a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._ca = trustme.CA()
        self.file = folder / "ca.pem"
        self._ca.cert_pem.write_to_path(self.file)

    def issue(self, name: str, *identities: str, expires: datetime | None = None) -> Certificates:
        issued = self._ca.issue_cert(*identities, not_after=expires)
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        issued.private_key_pem.write_to_path(key)
        return Certificates(ca=self.file, cert=cert, key=key)


@dataclass(frozen=True, kw_only=True, slots=True)
class Secured:
    rabbit: RabbitNode
    redis: RedisNode
    ours: Certificates
    folder: Path

    def settings(self, **other: str) -> dict[str, str]:
        return {
            "BRIDGE_AMQP_URL": self.rabbit.amqps_url,
            "BRIDGE_REDIS_URL": self.redis.tls_url,
            "BRIDGE_MANAGEMENT_URL": f"https://guest:guest@localhost:{self.rabbit.management_tls_port}",
            "BRIDGE_TLS_CA": str(self.ours.ca),
            "BRIDGE_TLS_CERT": str(self.ours.cert),
            "BRIDGE_TLS_KEY": str(self.ours.key),
            **PATIENT,
            **other,
        }


@pytest.fixture(scope="module")
def secured(local_dir: Path, servers: Servers) -> Iterator[Secured]:
    """Servers with a certificate for `localhost` that require client certificates."""
    folder = local_dir / "tls"
    authority = Authority(folder / "authority")
    own = authority.issue("server", "localhost")
    rabbit, redis = servers.rabbit_node(folder / "rabbitmq", tls=own), servers.redis_node(folder / "redis", tls=own)
    with redis:
        rabbit.start()
        try:
            yield Secured(rabbit=rabbit, redis=redis, ours=authority.issue("bridge", "bridge.test"), folder=folder)
        finally:
            rabbit.kill()


@asynccontextmanager
async def launched(secured: Secured, settings: Mapping[str, str]) -> AsyncIterator[ForkedBridge]:
    """A bridge that answers, whether or not it is ready."""
    port = free_ports(1)[0]
    bridge = ForkedBridge(secured.folder / f"bridge-{port}.log", port, settings)
    bridge.launch()
    try:
        await ready_parts(bridge.url)
        yield bridge
    finally:
        await asyncio.to_thread(bridge.stop)


async def ready_parts(url: str, verify: ssl.SSLContext | bool = True) -> dict[str, str]:
    """The parts of `/health/ready`, as soon as the bridge answers."""
    async with httpx2.AsyncClient(base_url=url, timeout=30, verify=verify) as client:
        while True:
            try:
                answer = await client.get("/health/ready")
            except httpx2.ConnectError:
                await pause()
            else:
                parts: dict[str, str] = answer.json()["parts"]
                assert (answer.status_code == 200) == all(state == "ok" for state in parts.values())
                return parts


async def all_ok(url: str, verify: ssl.SSLContext | bool = True) -> None:
    states: set[str] = set()
    while states != {"ok"}:
        states = set((await ready_parts(url, verify)).values())
        await pause()


async def send_pull_ack(client: httpx2.AsyncClient) -> None:
    topic = "/v1/topics/secure"
    sent = await client.post(f"{topic}/messages", json={"id": "m", "body": {"a": 1}, "delay": "300ms"})
    assert sent.status_code == 201
    (message,) = (await client.post(f"{topic}/pull", json={"wait": "30s"})).json()["messages"]
    assert message["body"] == {"a": 1}
    acked = await client.post(f"{topic}/ack", json={"receipts": [message["receipt"]]})
    assert acked.status_code == 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Front:
    """A bridge whose own port speaks https, with a certificate of an authority of its own."""

    url: str
    authority: Authority
    log_file: Path


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def front(secured: Secured) -> AsyncIterator[Front]:
    authority = Authority(secured.folder / "front")
    own = authority.issue("front", "127.0.0.1", expires=datetime(2030, 1, 1, tzinfo=UTC))
    settings = secured.settings(BRIDGE_HTTP_CERT=str(own.cert), BRIDGE_HTTP_KEY=str(own.key))
    port = free_ports(1)[0]
    bridge = ForkedBridge(secured.folder / "https.log", port, settings)
    bridge.launch()
    try:
        yield Front(url=f"https://127.0.0.1:{port}", authority=authority, log_file=bridge.log_file)
    finally:
        await asyncio.to_thread(bridge.stop)


async def test_message_is_sent_pulled_and_acked_over_tls(secured: Secured, front: Front) -> None:
    verify = ssl.create_default_context(cafile=front.authority.file)
    await all_ok(front.url, verify)
    async with httpx2.AsyncClient(base_url=front.url, verify=verify, timeout=60) as client:
        await send_pull_ack(client)
        shown = (await client.get("/metrics")).text
    peers = secured.rabbit.ctl("list_connections", "--no-table-headers", "ssl", "peer_cert_subject").splitlines()
    assert len(peers) >= 2
    assert all(peer.startswith("true\t") for peer in peers)
    expires = "delaybridge_certificate_expires_timestamp_seconds"
    assert f'{expires}{{setting="BRIDGE_HTTP_CERT"}} 1.893456e+09' in shown
    assert f'{expires}{{setting="BRIDGE_TLS_CERT"}} ' in shown
    # The bridge reached the management API, so its log has no warning about it.
    assert "management API" not in front.log_file.read_text()


async def test_commands_trust_the_authority_that_they_are_given(front: Front) -> None:
    await all_ok(front.url, ssl.create_default_context(cafile=front.authority.file))
    settings = {"BRIDGE_URL": front.url}
    refused = await command("topics", settings=settings)
    assert refused.exit_code == failures.FAILED
    assert f"{front.url} was not called: its certificate is not trusted: " in refused.stderr
    assert "--ca or BRIDGE_CA" in refused.stderr
    ca = str(front.authority.file)
    sent = await command("--ca", ca, "send", "commands", "1", "--id", "over-tls", "--delay", "1h", settings=settings)
    assert sent.exit_code == failures.DONE, sent.output
    found = await command("get", "commands", "over-tls", "--json", settings={**settings, "BRIDGE_CA": ca})
    assert '"state":"waiting"' in found.stdout


async def test_commands_present_a_client_certificate(secured: Secured, front: Front) -> None:
    authority = Authority(secured.folder / "proxy")
    own, client = authority.issue("proxy", "127.0.0.1"), authority.issue("client", "client.test")
    async with demanding_proxy(front, own) as url:
        arguments = ("version", "--url", url, "--ca", str(authority.file))
        refused = await command(*arguments, settings={})
        assert refused.exit_code == failures.FAILED
        assert f"{url} was not called: TLS failed: " in refused.stderr
        assert "--cert and --key a client certificate" in refused.stderr
        served = await command(*arguments, "--cert", str(client.cert), "--key", str(client.key), settings={})
        assert served.exit_code == failures.DONE, served.output


@asynccontextmanager
async def demanding_proxy(front: Front, own: Certificates) -> AsyncIterator[str]:
    """Stands before a bridge and asks each client for a certificate of the authority of its own one."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=own.ca)
    context.verify_mode = ssl.CERT_REQUIRED
    # TLS 1.3 refuses a client after its handshake. So a connection may be reset before the reason is read.
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(own.cert, own.key)
    there, trusting = httpx2.URL(front.url), ssl.create_default_context(cafile=front.authority.file)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        bridge_reader, bridge_writer = await asyncio.open_connection(there.host, there.port, ssl=trusting)
        await asyncio.gather(passed_on(reader, bridge_writer), passed_on(bridge_reader, writer))

    async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                writer.write(data)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as server:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--ca", "/nowhere.pem"), "--ca: /nowhere.pem: No such file or directory"),
        (("--ca", "/etc/hostname"), "--ca: /etc/hostname: not a PEM file"),
        (("--cert", "/nowhere.pem"), "--cert, --key: /nowhere.pem: No such file or directory"),
        (("--key", "/nowhere.pem"), "--cert: is missing, but --key is set"),
    ],
)
async def test_command_names_the_unusable_certificate_file(arguments: tuple[str, str], complaint: str) -> None:
    ended = await command("topics", *arguments, settings={"BRIDGE_URL": "https://127.0.0.1:1"})
    assert ended.exit_code == failures.WRONG
    assert complaint in " ".join(ended.stderr.replace("│", " ").split())


async def test_bridge_without_a_client_certificate_is_refused_by_every_server(secured: Secured) -> None:
    settings = secured.settings()
    del settings["BRIDGE_TLS_CERT"], settings["BRIDGE_TLS_KEY"]
    async with launched(secured, settings) as bridge, asyncio.timeout(30):
        # TLS 1.3 refuses a client after its handshake. So a connection may be reset before the reason is read.
        while "certificate required" not in (parts := await ready_parts(bridge.url))["store"]:
            assert parts["store"] != "ok"
            await pause()
        assert parts["broker"] != "ok"


async def assert_refused(secured: Secured, settings: Mapping[str, str], *reasons: str) -> None:
    """Asserts that the bridge is not ready and gives a reason in its answer and its log."""
    async with launched(secured, settings) as bridge:
        parts = await ready_parts(bridge.url)
        for part in ("broker", "store"):
            assert any(reason in parts[part] for reason in reasons), parts
        assert any(reason in bridge.log_file.read_text() for reason in reasons)


async def test_server_of_another_authority_is_not_trusted(secured: Secured) -> None:
    other = Authority(secured.folder / "other")
    settings = secured.settings(BRIDGE_TLS_CA=str(other.file))
    await assert_refused(secured, settings, "certificate is not trusted: ")


async def test_server_of_a_private_authority_is_not_trusted_by_default(secured: Secured) -> None:
    settings = secured.settings()
    del settings["BRIDGE_TLS_CA"]
    await assert_refused(secured, settings, "certificate is not trusted: ")


async def test_server_with_another_name_is_not_trusted(secured: Secured) -> None:
    settings = secured.settings()
    for name in ("BRIDGE_AMQP_URL", "BRIDGE_REDIS_URL"):
        settings[name] = settings[name].replace("localhost", "127.0.0.1")
    await assert_refused(secured, settings, "IP address mismatch, certificate is not valid for '127.0.0.1'")


async def test_expired_certificate_is_not_trusted(secured: Secured) -> None:
    authority = Authority(secured.folder / "expired")
    expired = authority.issue("server", "localhost", expires=LONG_AGO)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(expired.cert, expired.key)
    received = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.extend(await reader.read())
        writer.close()

    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    async with server:
        port = server.sockets[0].getsockname()[1]
        settings = secured.settings(
            BRIDGE_AMQP_URL=f"amqps://guest:guest@localhost:{port}/",
            BRIDGE_REDIS_URL=f"rediss://:secret@localhost:{port}/0",
            BRIDGE_TLS_CA=str(authority.file),
        )
        await assert_refused(secured, settings, "certificate is not trusted: certificate has expired")
    assert not received


async def test_server_without_tls_is_reported_and_gets_no_password(secured: Secured) -> None:
    ports = secured.rabbit.port, secured.redis.port
    amqp, redis = (Proxy(f"tcp://127.0.0.1:{port}", overhears=True) for port in ports)
    async with amqp, redis:
        settings = secured.settings(
            BRIDGE_AMQP_URL=f"amqps://guest:open-sesame@localhost:{amqp.port}/",
            BRIDGE_REDIS_URL=f"rediss://:open-sesame@localhost:{redis.port}/0",
            BRIDGE_BROKER_TIMEOUT="1500ms",
            BRIDGE_STORE_TIMEOUT="1500ms",
        )
        await assert_refused(secured, settings, "does not speak TLS", "over TLS did not answer")
    client_hello = b"\x16\x03\x01"
    for sent in (amqp.overheard, redis.overheard):
        assert sent.startswith(client_hello)
        assert b"AMQP" not in sent
        assert b"AUTH" not in sent
        assert b"open-sesame" not in sent


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({"BRIDGE_TLS_CA": "/nowhere.pem"}, "BRIDGE_TLS_CA: /nowhere.pem: No such file or directory"),
        ({"BRIDGE_TLS_CA": "/etc/hostname"}, "BRIDGE_TLS_CA: /etc/hostname: not a PEM file"),
        ({"BRIDGE_TLS_KEY": "/nowhere.pem"}, "BRIDGE_TLS_CERT: is missing, but BRIDGE_TLS_KEY is set"),
        ({"BRIDGE_HTTP_CERT": "/nowhere.pem"}, "BRIDGE_HTTP_CERT, BRIDGE_HTTP_KEY: /nowhere.pem: No such file"),
    ],
)
async def test_unusable_certificate_files_end_the_bridge_at_its_start(
    settings: Mapping[str, str], complaint: str
) -> None:
    ended = await command("serve", settings=settings)
    assert ended.exit_code == 2
    assert ended.stderr.startswith(complaint)
