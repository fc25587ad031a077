"""Tests which value counts where a topic sets one, and where it sets none."""

from __future__ import annotations

from statistics import mean

import pytest
from pydantic import ValidationError

from bridge.model.message import Envelope
from bridge.model.values import Backoff, Defaults, Draft, Effective, Policy
from bridge.settings.settings import Settings
from bridge.store.kept.policies import read_policy

DEFAULTS = Defaults(
    max_retry=3, ttl_ms=60_000, lease_ms=30_000, backoff=Backoff(first_ms=1_000, factor=2.0, max_ms=300_000)
)
OWN = Policy(max_retry=0, ttl_ms=5, lease_ms=1_000, backoff=Backoff(steps_ms=(0,)), paused=True, keep_body_max=9)
DRAFT = Draft(topic="orders", envelope=Envelope())


def test_settings_without_a_value_give_a_growing_back_off_and_no_time_to_live() -> None:
    assert Settings().topic_defaults == Defaults(
        max_retry=3, ttl_ms=None, lease_ms=30_000, backoff=Backoff(first_ms=1_000, factor=2.0, max_ms=300_000)
    )


def test_settings_that_are_given_are_the_defaults() -> None:
    settings = Settings(max_retry=1, ttl=60_000, lease=2_000, backoff_first=3_000, backoff_max=4_000)
    assert settings.topic_defaults == Defaults(
        max_retry=1, ttl_ms=60_000, lease_ms=2_000, backoff=Backoff(first_ms=3_000, factor=2.0, max_ms=4_000)
    )


@pytest.mark.parametrize("setting", ["backoff_first", "backoff_max"])
def test_back_off_of_a_setting_has_a_bound(setting: str) -> None:
    bound_ms = 30 * 86_400_000
    assert getattr(Settings(**{setting: bound_ms}), setting) == bound_ms  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match=setting):
        Settings(**{setting: bound_ms + 1})  # type: ignore[arg-type]


def test_topic_that_sets_nothing_gets_the_defaults() -> None:
    policy = Effective.of(Policy(), DEFAULTS)
    assert (policy.max_retry, policy.ttl_ms, policy.lease_ms, policy.backoff) == (3, 60_000, 30_000, DEFAULTS.backoff)
    assert (policy.jitter, policy.defaulted) == (0.25, ["max_retry", "ttl_ms", "lease_ms", "backoff"])


def test_policy_that_an_earlier_build_stored_without_a_back_off_gets_the_default() -> None:
    for stored in (b'{"release":"checked","max_retry":5}', b'{"release":"checked","max_retry":5,"backoff":null}'):
        policy = Effective.of(read_policy(stored), DEFAULTS)
        assert (policy.max_retry, policy.retry_after_ms("o-1", 1)) == (5, 1_195)


def test_what_a_topic_sets_counts_also_where_it_is_zero() -> None:
    policy = Effective.of(OWN, DEFAULTS)
    assert (policy.max_retry, policy.ttl_ms, policy.lease_ms, policy.backoff) == (0, 5, 1_000, OWN.backoff)
    assert (policy.paused, policy.keep_body_max) == (True, 9)
    assert (policy.jitter, policy.defaulted, policy.own) == (0.0, [], OWN)


@pytest.mark.parametrize(
    ("message_id", "waits_ms"),
    [
        ("o-1", [1_195, 2_280, 4_698, 8_006]),
        ("o-2", [1_079, 2_044, 4_171, 9_201]),
    ],
)
def test_default_back_off_doubles_and_lasts_a_little_longer_by_id(message_id: str, waits_ms: list[int]) -> None:
    policy = Effective.of(Policy(), DEFAULTS)
    assert [policy.retry_after_ms(message_id, failures) for failures in range(1, len(waits_ms) + 1)] == waits_ms


def test_jitter_makes_no_retry_earlier_and_none_later_than_a_quarter() -> None:
    policy = Effective.of(Policy(), DEFAULTS)
    for failures, least_ms in ((1, 1_000), (5, 16_000), (9, 256_000), (10, 300_000), (10_000, 300_000)):
        waits_ms = [policy.retry_after_ms(f"order-{number}", failures) for number in range(1_000)]
        assert least_ms <= min(waits_ms) < 1.02 * least_ms
        assert 1.23 * least_ms < max(waits_ms) < 1.25 * least_ms
        assert mean(waits_ms) == pytest.approx(1.125 * least_ms, rel=0.01)


def test_explicit_back_off_is_kept_as_it_is_written() -> None:
    growing = Effective.of(Policy(backoff=Backoff(first_ms=100, factor=3, max_ms=500)), DEFAULTS)
    assert [growing.retry_after_ms("o-1", failures) for failures in (1, 2, 3)] == [100, 300, 500]
    assert [Effective.of(OWN, DEFAULTS).retry_after_ms("o-1", failures) for failures in (1, 2)] == [0, 0]


def test_default_back_off_of_zero_retries_at_once() -> None:
    defaults = Settings(backoff_first=0).topic_defaults
    assert Effective.of(Policy(), defaults).retry_after_ms("o-1", 3) == 0


@pytest.mark.parametrize(
    ("own", "draft", "ttl_ms"),
    [
        (Policy(), DRAFT, 60_000),
        (Policy(), Draft(topic="orders", envelope=Envelope(), ttl_ms=7), 7),
        (OWN, DRAFT, 5),
        # A client of a wire that sets no time to live means for ever.
        (Policy(), Draft(topic="orders", envelope=Envelope(), of_wire=True), None),
        (OWN, Draft(topic="orders", envelope=Envelope(), of_wire=True), 5),
    ],
)
def test_time_to_live_comes_from_the_draft_the_topic_or_the_setting(
    own: Policy, draft: Draft, ttl_ms: int | None
) -> None:
    assert Effective.of(own, DEFAULTS).ttl_of(draft) == ttl_ms
