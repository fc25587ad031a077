"""Tests that the doctor names each fault, made on purpose, and finds nothing on a sound system."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aio_pika
import pytest
import trustme
from pamqp.common import FieldTable
from redis.asyncio import Redis

from bridge.cli.doctor.checks.table import CHECKS
from bridge.local.ports import free_ports
from tests.command import command
from tests.pika import pika
from tests.tools.doctor.conftest import PASSWORD, Row, System
from tests.waiting import pause
from topology import plan
from topology.declare import apply, remove
from topology.former import FormerNames
from topology.names import Names
from topology.plan import Plan

NAMES = Names()


async def test_sound_system_passes_every_check(system: System) -> None:
    rows = await system.rows("--all", "--strict", code=0)
    assert [(row["check"], row["state"], row["found"]) for row in rows] == [
        (check.number, "ok", None) for check in CHECKS
    ]
    ended = await command("doctor", settings=system.settings)
    assert (ended.stdout, ended.exit_code) == ("", 0)
    assert ended.stderr.startswith(f"{len(CHECKS)} checks: 0 faults, 0 not checked.")


WRONG: list[tuple[int, Mapping[str, str | None], str]] = [
    (101, {"lanes": "none"}, "BRIDGE_LANES: "),
    (102, {"lane": "2"}, "BRIDGE_LANE: is unknown; the nearest setting is BRIDGE_LANES"),
    (103, {"http_host": "0.0.0.0"}, "BRIDGE_ACCESS is not set"),
    (105, {"max_connections": "100000000"}, "needs 100,000,256"),
    (201, {"amqp_url": "amqp://guest:guest@127.0.0.1:1"}, "RabbitMQ at 127.0.0.1:1: "),
    (202, {"amqp_url": "amqp://guest:{password}@127.0.0.1:{amqp}"}, "the user or the password is wrong"),
    (203, {"amqp_url": "amqp://guest:guest@127.0.0.1:{amqp}/none"}, "the virtual host does not exist"),
    (209, {"lanes": "2"}, "the number of declared lanes is 1, and BRIDGE_LANES is 2"),
    (221, {"management_url": None}, "BRIDGE_MANAGEMENT_URL is not set"),
    (221, {"management_url": "http://guest:{password}@127.0.0.1:{management}"}, "401 "),
    (221, {"management_url": "http://guest:guest@127.0.0.1:1"}, "127.0.0.1:1: "),
    (301, {"redis_url": "redis://:{password}@127.0.0.1:1/0"}, "Redis at 127.0.0.1:1 did not answer"),
    (307, {"index_buckets": "4"}, "Redis has the index in 1 buckets, and BRIDGE_INDEX_BUCKETS is 4"),
]


@pytest.mark.parametrize(("number", "settings", "found"), WRONG)
async def test_wrong_setting_is_named(
    system: System, number: int, settings: Mapping[str, str | None], found: str
) -> None:
    ports = {"amqp": system.rabbit.port, "management": system.rabbit.management_port, "password": PASSWORD}
    given = {name: value and value.format(**ports) for name, value in settings.items()}
    rows = await system.rows("--all", code=1, **given)
    (fault,) = [row for row in rows if "remedy" in row]
    assert (fault["check"], found in fault["found"]) == (number, True), fault


async def test_checks_without_a_server_say_why_they_were_not_made(system: System) -> None:
    elsewhere = {"amqp_url": "amqp://127.0.0.1:1", "redis_url": "redis://127.0.0.1:1", "management_url": None}
    rows = await system.rows("--all", code=1, **elsewhere, http_port=str(free_ports(1)[0]))
    states = {row["check"]: (row["state"], row["found"]) for row in rows}
    passed = {number for number, (state, _) in states.items() if state == "ok"}
    assert passed == {101, 102, 103, 104, 105, 106, 202, 203, 302}
    assert states[205] == ("not checked", "there is no connection to RabbitMQ; see 201, 202 and 203")
    assert states[222] == ("not checked", "no management API; see 221")
    assert states[304] == ("not checked", "there is no connection to Redis; see 301 and 302")
    assert states[401][0] == "not checked"


async def test_columns_have_one_line_for_all_checks_without_a_server(system: System) -> None:
    settings = {**system.settings, "BRIDGE_AMQP_URL": "amqp://127.0.0.1:1"}
    ended = await command("doctor", settings=settings)
    rows = [re.split(r"  +", line) for line in ended.stdout.splitlines()]
    assert rows[0] == ["check", "state", "title", "found", "remedy"]
    assert [row[:3] for row in rows[1:]] == [
        ["201", "error", "RabbitMQ does not answer"],
        ["-", "not checked", "204, 205, 206, 208, 209, 210, 211, 212"],
    ]
    assert ended.stderr.startswith(f"{len(CHECKS)} checks: 1 fault, 8 not checked. docs/operating/doctor.md")


async def test_only_strict_fails_for_a_check_that_was_not_made(system: System) -> None:
    silent = {"http_port": str(free_ports(1)[0])}
    assert {row["state"] for row in await system.rows(code=0, **silent)} == {"not checked"}
    assert await system.rows("--strict", code=1, **silent)


async def test_port_of_another_program_is_named(system: System) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        serving = asyncio.create_task(asyncio.to_thread(_hang_up, other))
        found = await system.faults(http_port=str(port))
        await serving
    assert found == {104: f"127.0.0.1:{port}: Address already in use"}


def _hang_up(listening: socket.socket) -> None:
    listening.accept()[0].close()


@pytest.mark.parametrize(("days", "says"), [(10, "expires in 10 days"), (-1, "has expired")])
async def test_certificate_that_ends_soon_is_named(system: System, tmp_path: Path, days: int, says: str) -> None:
    issued = trustme.CA().issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=days, minutes=9))
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.cert_chain_pems[0].write_to_path(cert)
    issued.private_key_pem.write_to_path(key)
    found = await system.faults(http_cert=str(cert), http_key=str(key), http_port=str(free_ports(1)[0]))
    assert found == {106: f"the certificate of BRIDGE_HTTP_CERT {cert} {says}"}


async def test_certificate_of_a_server_that_ends_soon_is_named(system: System, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(ca := tmp_path / "ca.pem")
    issued = authority.issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=10, minutes=9))
    issued.configure_cert(context := ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
    async with await asyncio.start_server(lambda _, writer: writer.close(), "localhost", 0, ssl=context) as server:
        where = f"localhost:{server.sockets[0].getsockname()[1]}"
        found = await system.faults(management_url=f"https://guest:guest@{where}", tls_ca=str(ca))
    assert set(found) == {106, 221}
    assert found[106] == f"the certificate of {where} expires in 10 days"


async def test_user_without_rights_or_tag_is_named(system: System) -> None:
    async with system.managing() as management:
        (await management.put("users/poor", json={"password": PASSWORD, "tags": "management"})).raise_for_status()
        rights = {"configure": "", "write": "^delay", "read": ".*"}
        (await management.put("permissions/%2F/poor", json=rights)).raise_for_status()
    poor = f"poor:{PASSWORD}@127.0.0.1"
    found = await system.faults(
        amqp_url=f"amqp://{poor}:{system.rabbit.port}",
        management_url=f"http://{poor}:{system.rabbit.management_port}",
    )
    assert found == {
        205: "the user may not configure delay.*, ready.*, dead.*",
        206: "the user may not write to the default exchange (amq.default)",
        221: f"127.0.0.1:{system.rabbit.management_port}: its user has the tags management",
    }


async def test_alarm_is_named_with_and_without_the_management_api(system: System) -> None:
    await asyncio.to_thread(system.rabbit.ctl, "set_vm_memory_high_watermark", "0.00001")
    try:
        assert (await system.faults(management_url=None))[207] == "RabbitMQ blocks publishers"
        assert await system.faults() == {207: f"{system.rabbit.node_name}: memory alarm"}
    finally:
        await asyncio.to_thread(system.rabbit.ctl, "set_vm_memory_high_watermark", "0.4")


async def test_missing_former_and_foreign_objects_are_named(system: System) -> None:
    whole = plan.core(NAMES)
    gone = Plan(exchanges=tuple(exchange for exchange in whole.exchanges if exchange.name == NAMES.done))
    earlier = plan.slot(FormerNames.of(NAMES), "tenths", 9)
    async with await aio_pika.connect(system.rabbit.amqp_url) as connection:
        await remove(pika(connection), gone)
        await apply(pika(connection), Plan(queues=earlier.queues))
        async with connection.channel() as channel:
            tap = await channel.declare_queue("tap", durable=True)
            await tap.bind(NAMES.due, "#")
            for aside in (NAMES.refused, NAMES.unroutable):
                await channel.default_exchange.publish(aio_pika.Message(b"odd"), aside)
        try:
            assert await system.faults() == {
                208: "missing objects: delay.done",
                210: "the slot delay.900ms of an earlier version exists",
                211: "messages in delay.refused: 1",
                212: "messages in delay.unroutable: 1",
                225: "binding delay.due --#--> tap is bound: the messages that it takes do not reach a bridge; it must"
                " be absent",
            }
        finally:
            async with connection.channel() as channel:
                for queue in ("tap", earlier.queues[0].name):
                    await channel.queue_delete(queue)
                for aside in (NAMES.refused, NAMES.unroutable):
                    await (await channel.get_queue(aside)).purge()
            await apply(pika(connection), whole)


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
async def test_policy_with_a_length_limit_is_named(system: System, kind: str) -> None:
    async with system.managing() as management:
        policy = {"pattern": r"^delay\.", "definition": {"max-length": 10}, "apply-to": "queues"}
        (await management.put(f"{kind}/%2F/limits", json=policy)).raise_for_status()
        found = await system.faults()
        (await management.delete(f"{kind}/%2F/limits")).raise_for_status()
    assert set(found) == {222}
    assert "policy limits: max-length is 10 on delay." in found[222]


OF_4_3: list[tuple[int, Mapping[str, object], str]] = [
    (223, {"delayed-retry-type": "all", "delayed-retry-min": 1_000}, "delayed-retry-type is all on "),
    (224, {"consumer-timeout": 60_000}, "consumer-timeout is 60000 on "),
]


@pytest.mark.parametrize(("number", "definition", "says"), OF_4_3)
async def test_policy_of_newer_versions_is_named(
    system: System, number: int, definition: Mapping[str, object], says: str
) -> None:
    async with system.managing() as management:
        policy = {"pattern": r"^(delay|ready)\.", "definition": definition, "apply-to": "queues"}
        answer = await management.put("policies/%2F/newer", json=policy)
        if "not recognised policy settings" in answer.text:
            pytest.skip("this RabbitMQ has no such policy; tests/unit/cli/test_doctor.py has its row of a newer one")
        answer.raise_for_status()
        found = await system.faults()
        (await management.delete("policies/%2F/newer")).raise_for_status()
    assert set(found) == {number}
    assert f"policy newer: {says}" in found[number]


async def test_bridges_of_two_versions_are_named(system: System) -> None:
    about: FieldTable = {"version": "9.9", "prefix": NAMES.prefix}
    other: FieldTable = {"connection_name": "delaybridge publishing", "delaybridge": about}
    async with await aio_pika.connect(system.rabbit.amqp_url, client_properties=other):
        async with system.managing() as management:
            while '"9.9"' not in (await management.get("connections")).text:
                await pause()  # the management plugin shows connections seconds later
        (found,) = (await system.faults()).items()
    assert (found[0], found[1].endswith(", 9.9 are connected")) == (227, True)


@asynccontextmanager
async def configured(system: System, **parameters: str) -> AsyncIterator[None]:
    """Sets parameters of Redis, and the former values on exit."""
    async with Redis.from_url(system.redis.url, decode_responses=True) as redis:
        names = [name.replace("_", "-") for name in parameters]
        former = await redis.config_get(*names)
        await redis.config_set(*(word for pair in zip(names, parameters.values(), strict=True) for word in pair))
        try:
            yield
        finally:
            await redis.config_set(*(str(word) for pair in former.items() for word in pair))


REDIS: list[tuple[int, Mapping[str, str], str]] = [
    (303, {"maxmemory": "1gb", "maxmemory_policy": "allkeys-lru"}, "Redis' maxmemory-policy is allkeys-lru"),
    (304, {"appendfsync": "no"}, "appendfsync is no"),
    (304, {"appendonly": "no"}, "Redis writes nothing to the disk"),
    (304, {"appendonly": "no", "save": "3600 1"}, "Redis writes only snapshots (save 3600 1)"),
    (302, {"requirepass": PASSWORD}, ""),
]


@pytest.mark.parametrize(("number", "parameters", "says"), REDIS)
async def test_wrong_parameter_of_redis_is_named(
    system: System, number: int, parameters: Mapping[str, str], says: str
) -> None:
    async with configured(system, **parameters):
        found = await system.faults()
    assert set(found) == {number}
    assert says in found[number]


async def test_read_only_replica_is_named(system: System) -> None:
    async with Redis.from_url(system.redis.url) as redis:
        await redis.replicaof("127.0.0.1", "1")
        try:
            assert await system.faults() == {305: "Redis is a replica of 127.0.0.1:1"}
        finally:
            await redis.replicaof("NO", "ONE")


@pytest.mark.parametrize(("ahead_ms", "direction"), [(5_000, "ahead of"), (-5_000, "behind")])
async def test_clock_that_is_five_seconds_off_is_named(system: System, ahead_ms: int, direction: str) -> None:
    if system.shim.missing:
        pytest.skip(system.shim.missing)
    system.shim.set(ahead_ms=ahead_ms)
    try:
        found = await system.faults()
    finally:
        system.shim.set()
    assert set(found) == {306}
    assert direction in found[306]


async def test_redis_that_is_away_is_one_fault_of_the_running_bridge(system: System) -> None:
    await asyncio.to_thread(system.redis.kill)
    rows: list[Row] = []
    try:
        # The bridge's health is up to half a second old.
        while not any(row["found"].startswith("store, ") for row in rows):
            rows = [row for row in await system.rows(code=1) if "remedy" in row]
    finally:
        await asyncio.to_thread(system.redis.start)
        while any(row["state"] == "error" for row in await system.rows("--all", code=None)):
            await pause()
    assert [row["check"] for row in rows] == [301, 401], rows
    assert all(part in rows[1]["found"] for part in ("checkpoint, ", "schedules", "leases")), rows
    assert "docs/operating/runbook.md#redis-is-away" in rows[1]["remedy"]


async def test_system_is_sound_again(system: System) -> None:
    rows = await system.rows("--strict", code=0)
    assert rows == []
