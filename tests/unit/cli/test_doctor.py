"""Tests the decisions of the doctor by facts that are hard to make on purpose, and its table of checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from bridge.broker.declared.findings import Finding
from bridge.cli.doctor.checks.check import Fault
from bridge.cli.doctor.checks.table import CHECKS, examine
from bridge.cli.doctor.facts.facts import Facts
from bridge.cli.doctor.facts.management import Managed
from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.rabbitmq import Broker, Nodes
from bridge.cli.doctor.facts.redis import Redis
from bridge.cli.doctor.facts.running import Running
from bridge.store.inspection import Inspection, ServerState
from topology import plan
from topology.compare import disabled_flag
from topology.names import Names

NAMES = Names()
BROKER = Broker(
    names=NAMES,
    unsuitable=(),
    existing=(NAMES.checkpoint,),
    missing=(),
    former=(),
    refused=0,
    unroutable=0,
    lanes=1,
    barred=(),
    taken="confirmed",
)
ANSWERS: dict[str, Any] = {
    **dict.fromkeys(("policies", "operator_policies", "exchanges", "queues", "bindings", "connections"), ()),
    "expired": {"items": []},
    "alarms": {"status": "ok"},
    "overview": {"rabbitmq_version": "3.10.8", "object_totals": {"queues": 300}},
    "nodes": [{"name": "rabbit@a", "fd_total": 32_768}, {"name": "rabbit@b"}],
}
ANSWERING = Running(url="http://b:8080", parts={"broker": "ok"}, findings=(), version="0.1", own_version="0.1")


def faults(facts: Facts) -> dict[int, list[Fault]]:
    return {
        check.number: list(verdict) for check, verdict in examine(facts) if verdict and not isinstance(verdict, Missing)
    }


def reasons(facts: Facts) -> dict[int, str]:
    return {check.number: verdict.reason for check, verdict in examine(facts) if isinstance(verdict, Missing)}


def seen(**changed: Any) -> Facts:
    return Facts(nodes=Nodes(vhost="/", answered=1, broker=replace(BROKER, **changed)))


def managed(**answers: Any) -> Facts:
    whole = plan.core(NAMES) + plan.slot(NAMES, "seconds", 5) + plan.topic(NAMES, "orders")
    existing = replace(whole, bindings=())
    return Facts(management=Managed(plan=existing, prefix=NAMES.prefix, answers=ANSWERS | answers))


def kept(
    *infos: dict[str, str], config: Mapping[str, str] = MappingProxyType({}), ahead_ms: tuple[float, float] = (0, 1)
) -> Facts:
    servers = tuple(ServerState(info=info, config=config) for info in infos)
    return Facts(
        redis=Redis(seen=Inspection(servers=servers, ahead_ms=ahead_ms, buckets=None, topics=()), own_buckets=1)
    )


def test_numbers_rise_and_stay_in_the_hundred_of_their_part() -> None:
    numbers = [check.number for check in CHECKS]
    assert numbers == sorted(set(numbers))
    assert {number // 100 for number in numbers} == {1, 2, 3, 4}


def test_wrong_setting_leaves_nothing_else_to_check() -> None:
    facts = Facts(wrong=("BRIDGE_LANES: is no number",))
    assert set(faults(facts)) == {101}
    assert set(reasons(facts).values()) == {"the settings can't be used"}
    assert len(reasons(facts)) == len(CHECKS) - 2


def test_node_that_is_away_is_a_warning_while_another_answers() -> None:
    away = {"a:5672": "no answer in time"}
    alone = Facts(nodes=Nodes(vhost="/", away=away, broker=Missing("no connection")))
    beside = Facts(nodes=Nodes(vhost="/", away=away, answered=1, broker=BROKER))
    assert [faults(facts)[201][0].severity for facts in (alone, beside)] == ["error", "warning"]
    assert reasons(alone)[207] == "no connection"


def test_disabled_stream_queue_is_named() -> None:
    (fault,) = faults(seen(unsuitable=[disabled_flag("stream_queue", "disabled")]))[204]
    assert fault.found == "feature flag stream_queue is disabled; it must be enabled"


def test_missing_right_is_a_warning_while_nothing_is_missing() -> None:
    assert faults(seen(barred=("delay.",)))[205][0].severity == "warning"
    assert faults(seen(barred=("delay.",), missing=("delay.acks",)))[205][0].severity == "error"


def test_empty_broker_is_no_fault_before_the_first_start() -> None:
    facts = seen(existing=(), missing=("delay", "delay.acks"), lanes=0)
    assert faults(facts) == {}
    assert reasons(facts)[208] == reasons(facts)[209] == "nothing is declared yet; the first bridge declares it"


def test_objects_of_lanes_that_are_not_declared_are_one_fault() -> None:
    two = replace(NAMES, lanes=2)
    facts = seen(names=two, missing=("delay.lane1", "delay.lane1.checkpoint"), lanes=1)
    assert set(faults(facts)) == {209}
    assert set(faults(seen(names=two, missing=("delay.lane1", "delay.acks"), lanes=1))) == {208, 209}


# As RabbitMQ 4.3.6 lists them. Earlier versions do not accept these policies.
OF_4_3 = [
    {
        "vhost": "/",
        "name": "retries",
        "pattern": r"^(delay|ready)\.",
        "apply-to": "queues",
        "definition": {"delayed-retry-min": 1000, "delayed-retry-type": "all"},
        "priority": 0,
    },
    {
        "vhost": "/",
        "name": "slow",
        "pattern": r"^(delay|ready)\.",
        "apply-to": "queues",
        "definition": {"consumer-timeout": 60000},
        "priority": 0,
    },
]


@pytest.mark.parametrize(("policy", "number"), [*zip(OF_4_3, (223, 224), strict=True)])
def test_policy_of_rabbitmq_4_3_is_named(policy: dict[str, Any], number: int) -> None:
    found = faults(managed(policies=[policy]))
    assert set(found) == {number}
    assert f"policy {policy['name']}: " in found[number][0].found


def test_question_that_the_management_api_refuses_is_not_a_pass() -> None:
    facts = managed(**{name: Missing("401") for name in ("policies", "bindings", "connections", "expired", "overview")})
    unmade = {number: reason for number, reason in reasons(facts).items() if 220 < number < 300}
    assert unmade == dict.fromkeys((222, 223, 224, 225, 226, 227, 228), "401")


def test_expired_messages_and_alarms_are_named() -> None:
    page = {"items": [{"name": "delay.000d-00h-00m-05s", "messages_dlx": 1_000}]}
    raised = {"status": "failed", "alarms": [{"node": "rabbit@a", "resource": "disk"}]}
    found = faults(managed(expired=page, alarms=raised))
    assert set(found) == {207, 226}
    assert found[207] == [Fault("rabbit@a: disk alarm")]


def test_only_bridges_of_the_same_prefix_count_as_two_versions() -> None:
    def connected(version: str, prefix: str) -> dict[str, Any]:
        return {"client_properties": {"delaybridge": {"version": version, "prefix": prefix}}}

    others: list[Any] = [{"client_properties": {"product": "aiormq"}}, {}, connected("0.1", "other")]
    assert faults(managed(connections=[connected("0.2", "delay"), *others])) == {}
    assert set(faults(managed(connections=[connected("0.2", "delay"), connected("0.1", "delay"), *others]))) == {227}


def test_queues_that_reserve_most_file_handles_are_a_fault_before_version_4() -> None:
    def overview(version: str, queues: int) -> dict[str, Any]:
        return {"rabbitmq_version": version, "object_totals": {"queues": queues}}

    (fault,) = faults(managed(overview=overview("3.13.7", 8_739)))[228]
    assert fault.found == "8,739 queues reserve up to 26,217 of 32,768 file handles of rabbit@a"
    assert faults(managed(overview=overview("3.13.7", 8_738))) == {}
    assert faults(managed(overview=overview("4.0.5", 8_739), nodes=Missing("401"))) == {}
    just_started = [{"name": "rabbit@a"}]
    assert 228 in reasons(managed(overview=overview("3.13.7", 274), nodes=just_started))
    assert 228 not in reasons(managed(overview=overview("3.13.7", 273), nodes=just_started))


def test_one_master_of_several_makes_a_fault() -> None:
    master = {"aof_enabled": "1", "role": "master"}
    evicting = {**master, "maxmemory": "1", "maxmemory_policy": "allkeys-lru"}
    found = faults(kept(master, evicting, {**master, "role": "slave"}, config={"appendfsync": "always"}))
    assert set(found) == {303, 305}


def test_command_that_redis_refuses_is_not_a_pass() -> None:
    unmade = {number: reason for number, reason in reasons(kept({})).items() if number > 300 and number < 400}
    assert set(unmade) == {303, 304, 305}
    assert unmade[303] == "Redis refuses INFO"
    assert set(reasons(kept({"role": "master"}))) & {303, 304, 305} == {304}


@pytest.mark.parametrize(
    ("ahead_ms", "says"),
    [((400, 900), None), ((-900, -400), None), ((5_000, 5_001), "5.0 s ahead of"), ((-9_000, -5_000), "5.0 s behind")],
)
def test_clock_is_named_only_if_the_difference_is_certain(ahead_ms: tuple[float, float], says: str | None) -> None:
    found = faults(kept({}, ahead_ms=ahead_ms)).get(306)
    assert (found is None) if says is None else (found is not None and says in found[0].found)


def test_running_bridge_is_named_with_its_state_findings_and_version() -> None:
    step = Finding("warning", "the clock of Redis was set back by 5 s")
    ill = replace(ANSWERING, parts={"broker": "away", "store": "ok"}, findings=(step,), version="0.2")
    found = faults(Facts(running=ill))
    assert [fault.found for fault in found[401]] == ["broker of the bridge at http://b:8080: away"]
    assert found[402] == [Fault(step.says, "warning")]
    assert found[403] == [Fault("the bridge is 0.2, and this program 0.1", "warning")]


REDIS, RABBIT = "`BRIDGE_REDIS_URL` (docs/operating/runbook.md#redis-is-away)", "`BRIDGE_AMQP_URL` ("


@pytest.mark.parametrize(
    ("parts", "found", "remedies"),
    [
        (
            {"broker": "ok", "acks": "waiting: r: refused", "store": "r: refused", "push": "waiting: r: reset"},
            ["store, acks, push of the bridge at http://b:8080: r: refused"],
            [REDIS],
        ),
        (
            {
                "broker": "q did not answer in time; asked again in 0.8 s",
                "store": "r: refused",
                "acks": "waiting: q did not answer in time; asked again in 1.1 s",
                "audit": "waiting: r: refused",
                "leases": "waiting: something else",
            },
            [
                "broker, acks of the bridge at http://b:8080: q did not answer in time; asked again in 0.8 s",
                "store, audit of the bridge at http://b:8080: r: refused",
                "leases of the bridge at http://b:8080: waiting: something else",
            ],
            [RABBIT, REDIS, None],
        ),
        (
            {"store": "ok", "eu/store": "r: refused", "eu/acks": "waiting: r: refused", "acks": "failed: KeyError"},
            [
                "eu/store, eu/acks of the bridge at http://b:8080: r: refused",
                "acks of the bridge at http://b:8080: failed: KeyError",
            ],
            ["`redis_url` of the pool eu (", None],
        ),
    ],
    ids=["one server", "both servers", "a server of a pool"],
)
def test_server_that_is_away_is_one_fault_with_the_parts_that_wait_for_it(
    parts: Mapping[str, str], found: list[str], remedies: list[str | None]
) -> None:
    named = faults(Facts(running=replace(ANSWERING, parts=parts)))[401]
    assert [fault.found for fault in named] == found
    assert all(
        fault.remedy is None if remedy is None else remedy in str(fault.remedy)
        for fault, remedy in zip(named, remedies, strict=True)
    )


def test_finding_of_the_bridge_that_another_check_names_is_named_once() -> None:
    (fault,) = faults(managed(policies=[OF_4_3[0]]))[223]
    facts = replace(
        managed(policies=[OF_4_3[0]]), running=replace(ANSWERING, findings=(Finding("warning", fault.found),))
    )
    assert set(faults(facts)) == {223}
