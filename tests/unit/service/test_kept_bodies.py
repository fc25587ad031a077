"""Tests up to how many bytes a body is kept in Redis."""

from __future__ import annotations

import pytest

from bridge.model.values import Policy
from bridge.service.protocol.kept_bodies import keep_body_max
from bridge.settings.settings import Settings


@pytest.mark.parametrize(
    ("settings", "policy", "of_wire", "kept"),
    [
        (Settings(), Policy(), False, 64 * 1024),
        (Settings(), Policy(), True, 1024 * 1024),
        (Settings(keep_body_max=0, max_body=5_000), Policy(), True, 5_000),
        (Settings(keep_body_max=10), Policy(), False, 10),
        (Settings(wire_keep_body_max=20), Policy(), True, 20),
        (Settings(wire_keep_body_max=20), Policy(), False, 64 * 1024),
        (Settings(wire_keep_body_max=0), Policy(), True, 0),
        (Settings(), Policy(keep_body_max=30), False, 30),
        (Settings(), Policy(keep_body_max=0), True, 0),
    ],
)
def test_the_topics_limit_counts_before_the_one_of_wires_or_of_all(
    settings: Settings, policy: Policy, of_wire: bool, kept: int
) -> None:
    assert keep_body_max(settings, policy, of_wire=of_wire) == kept
