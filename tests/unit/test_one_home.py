"""Tests that facts in two places agree: `topology` can't import the bridge, and `bridge.model` can't import
topology."""

from __future__ import annotations

from datetime import UTC, datetime

from annotated_types import Le

from bridge.access.token import NAMESPACE_PATTERN
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.message import TOPIC_PATTERN
from bridge.model.values import MAX_DELAY_MS
from bridge.settings.settings import Settings
from topology import names, plan, wheel


def test_the_longest_delay_of_the_model_is_that_of_the_wheel() -> None:
    assert MAX_DELAY_MS == wheel.MAX_DELAY_MS


def test_the_topic_pattern_of_the_model_is_that_of_the_topology() -> None:
    assert f"^{names.TOPIC.pattern.replace('(?:', '(')}$" == TOPIC_PATTERN


def test_a_namespace_is_the_first_part_of_a_topic() -> None:
    assert TOPIC_PATTERN.startswith(NAMESPACE_PATTERN.removesuffix("$"))


def test_the_latest_instant_is_the_last_millisecond_that_datetime_holds() -> None:
    latest = datetime.max.replace(microsecond=999_000, tzinfo=UTC)
    assert round(latest.timestamp() * 1_000) == LATEST_INSTANT_MS


def test_settings_allow_as_many_lanes_as_the_topology() -> None:
    assert Le(names.MOST_LANES) in Settings.model_fields["lanes"].metadata


def test_defaults_of_settings_are_those_of_the_topology() -> None:
    fields = Settings.model_fields
    own = names.Names()
    defaults = [fields[name].default for name in ("prefix", "ready_prefix", "dead_prefix", "lanes", "delivery_limit")]
    assert defaults == [own.prefix, own.ready, own.dead, own.lanes, plan.DELIVERY_LIMIT]
