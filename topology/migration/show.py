"""Writes the steps of a migration and the stage of each exchange as text for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final

from topology.migration.facts import DELAYED, Facts, OldExchange
from topology.migration.steps import Gap, Step, Unsettled, refusal, with_missing
from topology.names import Names

LONGEST_DELAY: Final = "49.7 days"


def as_text(steps: Sequence[Step]) -> str:
    """Returns the steps of each exchange as text, each with its state, its risk and how to undo it."""
    return "\n".join(line for name, group in groupby(steps, lambda step: step.exchange) for line in _lines(name, group))


def _lines(name: str, steps: Iterator[Step]) -> Iterator[str]:
    yield f"{name}"
    for number, step in enumerate(steps, start=1):
        state = "done" if step.is_done else f"waits: {step.waits_for}" if step.waits_for else "next"
        yield f"  {number}. {step.what}"
        yield f"     state: {state}"
        yield f"     risk:  {step.risk}"
        yield f"     back:  {step.back}"


def stage(exchange: OldExchange, begun: Mapping[str, Unsettled], names: Names) -> str:
    """Returns how far the migration of the exchange is, in words. `begun`: replacements that have not ended, by
    exchange."""
    if exchange.name in begun:
        return "interrupted: run the last command again"
    if exchange.is_plain:
        return "replaced" if exchange.has_ingress else "replaced, but without its ingress: run apply"
    if exchange.has_ingress:
        return "prepared"
    refused = refusal(exchange, names)
    return f"refused: {refused}" if refused else "not begun"


def status(
    facts: Facts, begun: Mapping[str, Unsettled], held: Mapping[str, int | None], names: Names
) -> list[dict[str, object]]:
    """Returns a row for each exchange: values by the name of the column. `begun`: replacements that have not ended, by
    exchange. `held`: by exchange, how many messages the plugin held when it was replaced; None: unknown."""
    return [
        {
            "exchange": exchange.name,
            "type": exchange.kind,
            "plain_type": exchange.plain_type,
            "bindings": len(exchange.bindings),
            "ingress": exchange.has_ingress,
            "messages_delayed": exchange.held if exchange.is_delayed else None,
            "held_when_replaced": held.get(exchange.name, 0) if exchange.is_plain else None,
            "stage": stage(exchange, begun, names),
        }
        for exchange in with_missing(facts, begun)
    ]


def of_gap(gap: Gap) -> str:
    """Says how long the exchange was missing or had no bindings, and how many messages may be lost in that time."""
    name, lasted = gap.exchange, "since an earlier command deleted it"
    if gap.lasted_s is not None:
        lasted = f"for {gap.lasted_s * 1_000:.1f} ms"
    missing = f"{name} was missing, or without its bindings, {lasted}."
    if not gap.may_have_lost:
        return missing
    if gap.held is None:
        return f"{missing} Nobody knows whether the plugin held messages. Those that it had due then are LOST."
    most = f"{gap.held} at most, as the plugin held so many before"
    count = "" if gap.probably_lost is None else f"; about {gap.probably_lost} at the pace before"
    return f"{missing} Messages that the plugin had due then are LOST: {most}{count}."


def of_letters(letters: Mapping[str, int] | None, paused: Sequence[str]) -> Iterator[str]:
    """Yields lines about dead letters to replay. `letters`: how many each topic has; None: no bridge was asked.
    `paused`: topics that the migration has paused and not resumed."""
    for topic in paused:
        yield f"paused: {topic}: run the last command again with --url, or `delaybridge resume {topic}`."
    if letters is None:
        yield "to replay: unknown, as no bridge was asked. --url names it."
        return
    for topic, count in letters.items():
        if count:
            most = min(count, 1_000)
            yield f"to replay: {count} dead letters of {topic}: `delaybridge dead replay {topic} --max {most}`."


def of_plugin(facts: Facts, begun: Mapping[str, Unsettled], held: Mapping[str, int | None]) -> str:
    """Says whether the plugin may be switched off, and why not. `begun`: replacements that have not ended, by exchange.
    `held`: by exchange, how many messages the plugin held when it was replaced; None: unknown."""
    if facts.plugin_is_on is None:
        return "plugin: unknown, as a file does not say whether it is on. --management-url asks RabbitMQ."
    if not facts.plugin_is_on:
        return f"plugin: off. RabbitMQ has no type {DELAYED}."
    if begun or any(exchange.is_delayed for exchange in facts.exchanges):
        return f"plugin: on, and needed. Never switch it off while an exchange is of type {DELAYED}."
    if facts.elsewhere:
        return f"plugin: on, and needed by the virtual hosts {', '.join(facts.elsewhere)}."
    if held:
        counts = ", ".join(f"{name} {'?' if count is None else count}" for name, count in sorted(held.items()))
        return (
            f"plugin: on, and it may hold messages: {counts} when they were replaced. RabbitMQ no longer counts them."
            f" Leave it on until the longest of their delays has passed, {LONGEST_DELAY} at most."
        )
    return "plugin: on, and no longer needed: it holds no message. Switch it off."
