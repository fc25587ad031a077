"""Tests which alerts Alertmanager mutes, of those that fire in the cases of `rules_test.yml`.

promtool asserts that exactly these alerts fire. Alertmanager has no such test, so its rules are applied here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest
import yaml

from tests.tools.prometheus.files import PROMETHEUS, rules

Alert = Mapping[str, str]
INHIBITIONS: Final[Sequence[Mapping[str, Any]]] = yaml.safe_load((PROMETHEUS / "alertmanager.yml").read_text())[
    "inhibit_rules"
]
CASES: Final = {case["name"]: case for case in yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text())["tests"]}
MATCHER: Final = re.compile(r'(\w+) (=|!=|=~|!~) "?([^"]*)"?')

PART_DOWN: Final = "DelaybridgePartDown"
LEFT: Final = {
    "Redis is away for a bridge with every loop": [f"{PART_DOWN} store"],
    "the Redis of one pool is away for one bridge, and in the default pool a checkpoint fails": [
        "DelaybridgeLoopFails checkpoint",
        f"{PART_DOWN} eu/store",
        f"{PART_DOWN} us/watch",
    ],
    "RabbitMQ blocks publishers, and messages of two pools are overdue": [
        "DelaybridgeBrokerBlocked broker",
        "DelaybridgeOldestOverdue eu/orders",
    ],
}
"""By case with a cause: the alerts that still call somebody."""


def firing(case: Mapping[str, Any]) -> list[list[Alert]]:
    """The alerts that fire at each moment of a case."""
    return [
        [dict(re.findall(r'(\w+)="([^"]*)"', sample["labels"])) for sample in moment["exp_samples"]]
        for moment in case["promql_expr_test"]
        if moment["expr"] == 'ALERTS{alertstate="firing"}'
    ]


def matches(alert: Alert, matchers: Sequence[str]) -> bool:
    """Whether the alert has what each matcher wants. A missing label is empty, and a pattern matches whole values."""
    for matcher in matchers:
        found = MATCHER.fullmatch(matcher)
        assert found is not None, matcher
        label, operator, wanted = found.groups()
        value = alert.get(label, "")
        equal = re.fullmatch(wanted, value) is not None if "~" in operator else value == wanted
        if equal == operator.startswith("!"):
            return False
    return True


def mutes(rule: Mapping[str, Any], source: Alert, target: Alert) -> bool:
    # Alertmanager lets no alert mute itself, nor one that matches both sides.
    return (
        matches(source, rule["source_matchers"])
        and matches(target, rule["target_matchers"])
        and not (matches(target, rule["source_matchers"]) and matches(source, rule["target_matchers"]))
        and all(source.get(label, "") == target.get(label, "") for label in rule["equal"])
    )


def left(alerts: Sequence[Alert]) -> list[str]:
    """What still calls somebody: the alert's name, and its part or topic."""
    return sorted(
        f"{target['alertname']} {target.get('part') or target.get('topic', '')}".strip()
        for target in alerts
        if not any(mutes(rule, source, target) for rule in INHIBITIONS for source in alerts)
    )


@pytest.mark.parametrize("name", LEFT)
def test_a_cause_mutes_its_consequences_and_nothing_else(name: str) -> None:
    assert left(firing(CASES[name])[-1]) == LEFT[name]


def test_one_outage_of_redis_fires_more_than_ten_alerts_and_calls_once() -> None:
    alerts = firing(CASES["Redis is away for a bridge with every loop"])[-1]
    assert all(alert["severity"] == "critical" for alert in alerts)
    assert len(alerts) > 10
    assert len(left(alerts)) == 1


def test_no_alert_is_muted_without_its_cause() -> None:
    for name in CASES.keys() - LEFT.keys():
        for alerts in firing(CASES[name]):
            assert len(left(alerts)) == len(alerts), name


@pytest.mark.parametrize("without", range(len(INHIBITIONS)))
def test_each_rule_is_needed(without: int, monkeypatch: pytest.MonkeyPatch) -> None:
    fewer = [rule for at, rule in enumerate(INHIBITIONS) if at != without]
    monkeypatch.setattr("tests.tools.prometheus.test_inhibition.INHIBITIONS", fewer)
    assert any(left(firing(CASES[name])[-1]) != expected for name, expected in LEFT.items())


def test_inhibition_names_only_alerts_that_exist() -> None:
    named = {
        found[3]
        for rule in INHIBITIONS
        for matcher in (*rule["source_matchers"], *rule["target_matchers"])
        if (found := MATCHER.fullmatch(matcher)) is not None and found[1] == "alertname"
    }
    assert named <= {rule.get("alert") for rule in rules()}
