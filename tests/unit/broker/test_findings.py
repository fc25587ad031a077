"""Tests that findings are put into words for an operator."""

from __future__ import annotations

from bridge.broker.declared.findings import Finding, in_words, not_empty
from topology.report import Difference, error, warning


def capped(queue: str, length: int = 10) -> Difference:
    return Difference(
        severity="warning",
        name=f"{queue}: policy limits: max-length",
        found=str(length),
        required="absent",
        on=queue,
        effect="full, it waits",
    )


def test_policy_on_many_queues_is_one_finding() -> None:
    assert in_words(map(capped, ("delay.000d-00h-00m-01s", "delay.000d-00h-00m-02s", "delay.000d-00h-00m-03s"))) == [
        Finding(
            "warning",
            "policy limits: max-length is 10 on delay.000d-00h-00m-01s and 2 more: full, it waits; it must be absent",
        )
    ]


def test_different_values_are_different_findings_and_errors_come_first() -> None:
    found = in_words(
        [capped("delay.000d-00h-00m-01s"), warning("a", found=1, required=2), error("b", found=3, required=4)]
    )

    assert [one.severity for one in found] == ["error", "warning", "warning"]
    assert found[0].says == "b is 3; it must be 4"
    assert len(in_words([capped("delay.000d-00h-00m-01s", 1), capped("delay.000d-00h-00m-01s", 2)])) == 2


def test_refused_messages_are_a_warning_that_says_what_to_do() -> None:
    assert in_words([not_empty("delay.refused", "'1.a' is no key")]) == [
        Finding(
            "warning",
            "delay.refused is not empty: no consumer gets its messages (x-delay-reason of the oldest: '1.a' is no key);"
            " mend the producer, then publish or purge them; it must be empty",
        )
    ]
