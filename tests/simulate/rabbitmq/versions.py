"""Lists what differs between the versions of RabbitMQ, as the contract suite measures it on 3.10.8, 4.0.5 and 4.3.6."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What one version does.

    `delivery_limit`: of a quorum queue without `x-delivery-limit`; None: there is no limit.
    `unlimited`: whether an `x-delivery-limit` of -1 means that there is no limit.
    `levels`: how many priorities a quorum queue tells apart.
    `levels_expire_apart`: whether each priority has a head that expires; else the message that is next alone does.
    `nack_counts`: whether a nack that requeues counts towards the delivery limit.
    `counts_returns`: whether messages carry `x-acquired-count`, the number of former deliveries.
    `zero_on_get`: whether a first `basic.get` carries `x-delivery-count: 0`.
    `carries_count`: whether a dead letter's failed deliveries count on in its next queue.
    `rejected_shows_one`: whether a rejected dead letter shows one failed delivery, whatever their number was.
    `believes_deaths`: whether the broker takes an `x-death` from a client for its own.
    `last_death`: whether a dead letter has the headers `x-last-death-*`.
    `drops_cc`: whether a dead-letter routing key removes the header CC.
    `unknown_type`: the code that refuses an exchange of an unknown type.
    `largest_bytes`: the largest body by default.
    `denies_deprecated`: whether global QoS and transient shared queues are refused.
    """

    number: str
    delivery_limit: int | None
    unlimited: bool
    levels: int
    levels_expire_apart: bool
    nack_counts: bool
    counts_returns: bool
    zero_on_get: bool
    carries_count: bool
    rejected_shows_one: bool
    believes_deaths: bool
    last_death: bool
    drops_cc: bool
    unknown_type: int
    largest_bytes: int
    denies_deprecated: bool


RULES: Final = MappingProxyType(
    {
        "3.10": Rules(
            number="3.10.8",
            delivery_limit=None,
            unlimited=False,
            levels=1,
            levels_expire_apart=False,
            drops_cc=True,
            unknown_type=503,
            nack_counts=True,
            counts_returns=False,
            zero_on_get=True,
            carries_count=False,
            rejected_shows_one=False,
            believes_deaths=True,
            last_death=False,
            largest_bytes=134_217_728,
            denies_deprecated=False,
        ),
        "4.0": Rules(
            number="4.0.5",
            delivery_limit=20,
            unlimited=True,
            levels=2,
            levels_expire_apart=False,
            drops_cc=False,
            unknown_type=406,
            nack_counts=True,
            counts_returns=False,
            zero_on_get=False,
            carries_count=False,
            rejected_shows_one=True,
            believes_deaths=False,
            last_death=True,
            largest_bytes=16_777_216,
            denies_deprecated=False,
        ),
        "4.3": Rules(
            number="4.3.6",
            delivery_limit=20,
            unlimited=True,
            levels=32,
            levels_expire_apart=True,
            drops_cc=False,
            unknown_type=406,
            nack_counts=False,
            counts_returns=True,
            zero_on_get=False,
            carries_count=True,
            rejected_shows_one=False,
            believes_deaths=False,
            last_death=True,
            largest_bytes=16_777_216,
            denies_deprecated=True,
        ),
    }
)
