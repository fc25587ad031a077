"""Tests that a bridge reads the policies that bridges of other versions have stored."""

from __future__ import annotations

import orjson
import pytest

from bridge.model.values import Backoff, Policy, Release
from bridge.store.kept.policies import read_policy, write_policy

GROWING = Backoff(first_ms=1_000, factor=3.0, max_ms=60_000)
STEPS = Backoff(steps_ms=(400, 200))


@pytest.mark.parametrize(
    "policy",
    [
        Policy(),
        Policy(release=Release.DIRECT, max_retry=5, ttl_ms=60_000, lease_ms=1_000, backoff=GROWING, paused=True),
        Policy(backoff=STEPS),
    ],
)
def test_policy_is_read_as_it_was_written(policy: Policy) -> None:
    assert read_policy(write_policy(policy)) == policy


def test_fields_of_a_newer_bridge_are_passed_over() -> None:
    newer = orjson.loads(write_policy(Policy(max_retry=5, backoff=STEPS)))
    newer["color"] = {"of": "tomorrow"}
    newer["backoff"]["jitter"] = 0.5

    assert read_policy(orjson.dumps(newer)) == Policy(max_retry=5, backoff=STEPS)


def test_fields_that_an_older_bridge_left_out_have_their_defaults() -> None:
    assert read_policy(b'{"release":"direct","backoff":{"steps_ms":[400,200]}}') == Policy(
        release=Release.DIRECT, backoff=STEPS
    )
