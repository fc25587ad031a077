from __future__ import annotations

from itertools import pairwise

import pytest

from tests.torture.plan import BRIDGES, BROKER, REDIS, Kind, plan

SEEDS = range(20)
SINGLE = set(Kind) - {Kind.PARTITION}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_the_same_plan_again_and_another_seed_another(seed: int) -> None:
    assert plan(seed, 10) == plan(seed, 10)
    assert plan(seed, 10) != plan(seed + 1, 10)


@pytest.mark.parametrize("seed", SEEDS)
def test_four_seconds_pass_between_faults_and_before_the_end(seed: int) -> None:
    faults = plan(seed, 10)
    for fault, following in pairwise(faults):
        assert fault.at_s + fault.duration_s + 4 <= following.at_s <= fault.at_s + 12.001
    assert faults[-1].at_s + faults[-1].duration_s <= 10 * 60
    assert 50 <= len(faults) <= 75


@pytest.mark.parametrize("seed", SEEDS)
def test_ten_minutes_do_every_kind_of_fault_to_every_server_it_is_for(seed: int) -> None:
    done: dict[Kind, set[str]] = {}
    for fault in plan(seed, 10):
        done.setdefault(fault.kind, set()).add(fault.target)
        if fault.kind is Kind.FREEZE:
            assert 1 <= fault.duration_s <= 4
    assert set(done) == SINGLE
    assert done[Kind.TERMINATE] <= set(BRIDGES)
    assert done[Kind.CLOCK] == done[Kind.EMPTY] == {REDIS}
    assert done[Kind.SLOW_DISK] == done[Kind.FULL_DISK] == {BROKER, REDIS}
    for kind in SINGLE - {Kind.TERMINATE, Kind.CLOCK, Kind.SLOW_DISK, Kind.FULL_DISK, Kind.EMPTY}:
        assert {BROKER, REDIS} < done[kind] <= {BROKER, REDIS, *BRIDGES}


@pytest.mark.parametrize("seed", SEEDS)
def test_each_clock_is_set_ahead_or_back(seed: int) -> None:
    assert {bool(fault.clock_ms) == (fault.kind is Kind.CLOCK) for fault in plan(seed, 10)} == {True}


def test_two_minutes_have_ten_kinds_of_faults() -> None:
    assert {fault.kind for fault in plan(1, 2)} == SINGLE


def test_a_cluster_has_partitions_in_both_directions_and_in_one() -> None:
    partitions = [fault for fault in plan(1, 10, partitions=True) if fault.kind is Kind.PARTITION]
    assert {fault.one_way for fault in partitions} == {False, True}


def test_a_run_too_short_for_a_fault_has_none() -> None:
    assert plan(1, 0.1) == ()
