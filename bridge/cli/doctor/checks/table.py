"""Lists all checks, and runs them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridge.cli.doctor.checks import machine, management, rabbitmq, redis, running
from bridge.cli.doctor.checks.check import Check, Verdict
from bridge.cli.doctor.facts.facts import Facts

# Checks by theme. The numbers of a theme's checks begin in one hundred, or in its second part.
THEMES: Final = {
    "Settings and machine": machine.CHECKS,
    "RabbitMQ": rabbitmq.CHECKS,
    "RabbitMQ's management API": management.CHECKS,
    "Redis": redis.CHECKS,
    "A running bridge": running.CHECKS,
}
CHECKS: Final = tuple(check for checks in THEMES.values() for check in checks)


def examine(facts: Facts) -> Sequence[tuple[Check, Verdict]]:
    """Runs every check, and returns each with its verdict."""
    return [(check, check.decide(facts)) for check in CHECKS]
