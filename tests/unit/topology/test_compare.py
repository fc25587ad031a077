"""Tests which differences on a broker become findings and which are ignored."""

from typing import Any

import pytest

from topology import compare, plan
from topology.names import Names

NAMES = Names()
PLAN = plan.core(NAMES) + plan.slot(NAMES, "seconds", 5) + plan.topic(NAMES, "orders")


def policy(definition: dict[str, Any], pattern: str = "5s", **changed: Any) -> dict[str, Any]:
    return {"name": "p", "pattern": pattern, "definition": definition, "apply-to": "queues", "priority": 0} | changed


def findings(*policies: dict[str, Any]) -> list[str]:
    return [finding.name for finding in compare.policies(PLAN, policies, kind="policy")]


@pytest.mark.parametrize(
    "definition",
    [
        {"expires": 1000},
        {"max-length": 1_000_000},
        {"max-length-bytes": 1},
        {"message-ttl": 4999},
        {"delivery-limit": 5},
        {"dead-letter-routing-key": "x"},
        {"overflow": "drop-head"},
    ],
)
def test_policy_that_breaks_a_slot_is_reported(definition: dict[str, Any]) -> None:
    assert findings(policy(definition)) == [f"delay.000d-00h-00m-05s: policy p: {next(iter(definition))}"]


@pytest.mark.parametrize(
    "definition",
    [
        {"message-ttl": 5000},
        {"message-ttl": 6000},
        {"dead-letter-exchange": "other"},
        {"dead-letter-strategy": "at-most-once"},
        {"overflow": "reject-publish"},
        {"max-in-memory-length": 0},
        {"queue-leader-locator": "balanced"},
    ],
)
def test_policy_overridden_by_slot_arguments_is_ignored(definition: dict[str, Any]) -> None:
    assert findings(policy(definition)) == []


@pytest.mark.parametrize("definition", [{"message-ttl": 10**12}, {"dead-letter-exchange": "x"}, {"delivery-limit": 20}])
def test_policy_that_removes_messages_from_the_checkpoint_is_reported(definition: dict[str, Any]) -> None:
    assert findings(policy(definition, "checkpoint")) == [f"delay.checkpoint: policy p: {next(iter(definition))}"]


def test_ready_queue_policy_with_ttl_or_lower_limit_is_reported() -> None:
    assert findings(policy({"message-ttl": 10**12}, "ready")) == ["ready.orders: policy p: message-ttl"]
    assert findings(policy({"delivery-limit": 3}, "^ready")) == ["ready.orders: policy p: delivery-limit"]
    assert findings(policy({"delivery-limit": 20}, "^ready")) == []


def test_only_the_matching_policy_with_the_highest_priority_counts() -> None:
    harmless, harmful = policy({}, ".*", priority=5), policy({"expires": 1}, "5s", priority=4)

    assert findings(harmless, harmful) == findings(harmful, harmless) == []
    assert findings(policy({}, "other", priority=5), harmful) == ["delay.000d-00h-00m-05s: policy p: expires"]


@pytest.mark.parametrize(
    ("apply_to", "count"), [("all", 1), ("quorum_queues", 1), ("classic_queues", 0), ("exchanges", 0)]
)
def test_policy_for_other_kinds_of_objects_is_ignored(apply_to: str, count: int) -> None:
    assert len(findings(policy({"expires": 1}, **{"apply-to": apply_to}))) == count


def test_pattern_python_cannot_compile_is_assumed_to_match() -> None:
    # The probes keep nothing that a policy could take.
    assert len(findings(policy({"expires": 1}, r"\p{Lu"))) == len(PLAN.every_queue) - 2


def test_disabled_feature_flag_is_reported_and_an_unlisted_one_is_not() -> None:
    answer = [{"name": "quorum_queue", "state": "enabled"}, {"name": "stream_queue", "state": "disabled"}]

    assert [str(finding) for finding in compare.flags(answer)] == [
        "error: feature flag stream_queue is disabled; it must be enabled."
        " Enable it with `rabbitmqctl enable_feature_flag stream_queue`"
    ]
    assert compare.flags([]) == []


def test_exchange_that_differs_is_reported() -> None:
    answer = [{"name": "delay.due", "type": "fanout", "durable": False, "arguments": {}}]

    assert [(f.name, f.found, f.required) for f in compare.exchanges(PLAN, answer)] == [
        ("delay.due: type", "fanout", "topic"),
        ("delay.due: durable", "False", "True"),
        ("delay.due: alternate-exchange", "absent", "delay.checkpoint"),
    ]


@pytest.mark.parametrize(
    ("source", "key", "reported"),
    [
        ("delay.due", "#", True),
        ("delay.seconds", "*.*.*.*.*.*.*.orders", False),
        ("delay.seconds", "*.*.*.*.*.6.#", False),
        ("delay.seconds", "*.*.*.*.*.5.#", True),  # that of a slot in the plan, such as a slot of an earlier version
        ("delay.due", "*.*.*.*.*.*.*.mails", False),
        ("delay.due", "*.*.*.*.*.*.*.*", True),
        ("delay.checkpoint", "#", False),
        ("delay.done", "#", True),
        ("elsewhere", "#", False),
    ],
)
def test_binding_that_copies_messages_or_leads_them_past_the_bridge_is_reported(
    source: str, key: str, reported: bool
) -> None:
    rows = [(b.source, b.destination, b.destination_type, b.key) for b in PLAN.bindings]
    columns = ("source", "destination", "destination_type", "routing_key")
    answer = [dict(zip(columns, row, strict=True)) for row in [*rows, (source, "tap", "queue", key)]]

    assert [f.severity for f in compare.bindings(PLAN, answer)] == (["warning"] if reported else [])


def test_former_binding_beside_the_present_one_is_reported_once() -> None:
    bound = [*PLAN.bindings, *PLAN.former]
    columns = ("source", "destination", "destination_type", "routing_key")
    rows = [(b.source, b.destination, b.destination_type, b.key) for b in bound]

    assert [
        (f.severity, f.name, f.required)
        for f in compare.bindings(PLAN, [dict(zip(columns, row, strict=True)) for row in rows])
    ] == [("warning", "binding delay --#--> delay.hundreds-of-days", "absent")]


@pytest.mark.parametrize(
    ("queue", "argument", "severity"),
    [
        ("ready.orders", {"x-delivery-limit": 7}, "warning"),
        ("ready.orders", {"x-consumer-timeout": 7}, "warning"),
        ("ready.orders", {"x-max-length": 7}, "error"),
        ("delay.000d-00h-00m-05s", {"x-message-ttl": 7}, "error"),
        ("delay.acks", {"x-delivery-limit": 7}, "error"),
    ],
)
def test_argument_that_loses_or_misroutes_messages_is_an_error(
    queue: str, argument: dict[str, int], severity: str
) -> None:
    answer = [{"name": planned.name, "arguments": {**planned.arguments}} for planned in PLAN.queues]
    for row in answer:
        if row["name"] == queue:
            row["arguments"] |= argument  # type: ignore[operator]

    (finding,) = compare.queues(PLAN, answer)

    assert (finding.severity, finding.name) == (severity, f"{queue}: {next(iter(argument))}")


@pytest.mark.parametrize(
    ("definition", "pattern", "severity"),
    [
        ({"expires": 1}, "^ready", "error"),
        ({"message-ttl": 1}, "5s", "error"),
        ({"message-ttl": 1}, "^ready", "warning"),
        ({"message-ttl": 1}, "checkpoint", "error"),
        ({"max-length": 1}, "5s", "warning"),
        ({"max-length": 1}, "checkpoint", "error"),
        ({"max-length": 1, "overflow": "reject-publish"}, "checkpoint", "warning"),
        ({"max-length": 1, "overflow": "drop-head"}, "5s", "error"),
        ({"overflow": "drop-head"}, "^ready", "error"),
        ({"delivery-limit": 1}, "^ready", "warning"),
        ({"delivery-limit": 1}, "acks", "error"),
        ({"dead-letter-routing-key": "x"}, "5s", "error"),
        ({"dead-letter-routing-key": "x"}, "^ready", "warning"),
        ({"delayed-retry-type": "all", "delayed-retry-min": 1, "delayed-retry-max": 9}, "^ready", "warning"),
        ({"delayed-retry-type": "returned"}, "5s", "warning"),
        ({"delayed-retry-type": "failed"}, "checkpoint", "warning"),
        ({"consumer-timeout": 60_000}, "^ready", "warning"),
        ({"consumer-timeout": 60_000}, "checkpoint", "warning"),
    ],
)
def test_policy_that_breaks_a_promise_is_an_error(definition: dict[str, Any], pattern: str, severity: str) -> None:
    found = compare.policies(PLAN, [policy(definition, pattern)], kind="policy")

    assert {finding.severity for finding in found} == {severity}
    assert all(finding.effect and finding.name.startswith(finding.on) for finding in found)


@pytest.mark.parametrize(
    ("definition", "pattern"),
    [
        ({"delayed-retry-type": "disabled"}, "^ready"),
        ({"delayed-retry-min": 1, "delayed-retry-max": 9}, "^ready"),
        ({"consumer-timeout": 1_800_000}, "checkpoint"),
        ({"consumer-timeout": 21_600_000}, "^ready"),
        ({"consumer-timeout": 1}, "5s"),  # nobody consumes from a slot
    ],
)
def test_policy_that_delays_and_interrupts_nothing_is_no_finding(definition: dict[str, Any], pattern: str) -> None:
    assert compare.policies(PLAN, [policy(definition, pattern)], kind="policy") == []


def test_policy_that_adds_an_alternate_exchange_is_reported() -> None:
    definition = {"alternate-exchange": "x"}
    found = compare.policies(PLAN, [policy(definition, "^delay", **{"apply-to": "exchanges"})], kind="policy")

    assert {finding.on for finding in found} == {e.name for e in PLAN.exchanges if not e.alternate} - {"ready.returned"}


def test_slot_with_a_thousand_expired_messages_is_reported() -> None:
    rows = [
        {"name": "delay.000d-00h-00m-05s", "messages_dlx": 1_000},
        {"name": "delay.000d-00h-00m-06s", "messages_dlx": 5_000},  # not in the plan
        {"name": "ready.orders", "messages_dlx": 5_000},
    ]

    (finding,) = compare.expired(PLAN, rows)
    assert (finding.severity, finding.name, finding.found) == (
        "warning",
        "delay.000d-00h-00m-05s: number of expired messages",
        "1,000",
    )
    assert "deploy/rabbitmq-advanced.config" in finding.remedy
    for row in ({"name": "delay.000d-00h-00m-05s", "messages_dlx": 999}, {"name": "delay.000d-00h-00m-05s"}):
        assert compare.expired(PLAN, [row]) == []
