"""Tests what a copy of an AMQP client gets from its topic's policy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.model.message import UNSET, Copy, Envelope
from bridge.model.values import Policy
from bridge.service.protocol.successors import completed
from tests.effective import effective

CLIENTS = Copy(
    topic="orders", id="o-1", epoch=0, nonce=0, attempt=1, max_retry=UNSET, due_ms=1_000, expires_ms=0, created_ms=500,
    envelope=Envelope(),
)  # fmt: skip


@pytest.mark.parametrize(
    ("own", "policy", "max_retry", "expires_ms"),
    [
        ({}, Policy(), 3, 0),
        ({}, Policy(max_retry=0, ttl_ms=60_000), 0, 61_000),
        ({"max_retry": 7, "expires_ms": 9_000}, Policy(max_retry=0, ttl_ms=60_000), 7, 9_000),
        ({"max_retry": 7}, Policy(ttl_ms=60_000), 7, 61_000),
        ({"epoch": 2}, Policy(max_retry=1, ttl_ms=60_000), 1, 0),
        ({"epoch": 2, "max_retry": 7}, Policy(max_retry=1, ttl_ms=60_000), 7, 0),
    ],
)
def test_topic_fills_in_what_a_client_left_out(
    own: dict[str, int], policy: Policy, max_retry: int, expires_ms: int
) -> None:
    copy = completed(replace(CLIENTS, **own), effective(policy))  # type: ignore[arg-type]
    assert (copy.max_retry, copy.expires_ms) == (max_retry, expires_ms)
