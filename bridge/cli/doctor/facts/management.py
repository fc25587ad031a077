"""Asks RabbitMQ's management API, which shows policies, arguments, bindings and alarms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import httpx2

from bridge.cli.doctor.facts.missing import Missing
from bridge.cli.doctor.facts.rabbitmq import names_of, planned
from bridge.model.tls import tls_failure
from bridge.settings.settings import Settings
from topology.management import Management, management, quoted
from topology.plan import Plan, slots
from topology.verify import MOST_EXPIRED

_ENOUGH: Final = frozenset(("monitoring", "policymaker", "administrator"))

# The path of each question to the API, by the name of the fact.
_QUESTIONS: Final = {
    "policies": "policies/VHOST",
    "operator_policies": "operator-policies/VHOST",
    "exchanges": "exchanges/VHOST",
    "queues": "queues/VHOST?columns=name,durable,arguments",
    "bindings": "bindings/VHOST",
    "expired": f"queues/VHOST?{MOST_EXPIRED}",
    "alarms": "health/checks/alarms",  # `nodes` shows alarms seconds later, and for seconds after their end
    "connections": "vhosts/VHOST/connections?columns=client_properties",
    "overview": "overview?columns=rabbitmq_version,object_totals",
    "nodes": "nodes?columns=name,fd_total",
}


_CHECK_FAILED: Final = 503  # the answer of a health check that has found something


@dataclass(frozen=True, slots=True)
class Unusable:
    """The management API can't be used. `reason`: why. `wanted`: whether a setting names the API."""

    reason: str
    wanted: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Managed:
    """The answers of the management API. `plan`: the objects that a bridge declares and that exist. `prefix`: the
    setting BRIDGE_PREFIX. `answers`: the decoded answers by the name of the fact, such as `policies`; `Missing` for a
    question that the API did not answer."""

    plan: Plan
    prefix: str
    answers: Mapping[str, Any | Missing]


async def managed(settings: Settings, vhost: str) -> Managed | Unusable:
    if settings.management_url is None:
        return Unusable("BRIDGE_MANAGEMENT_URL is not set", wanted=False)
    async with management(settings.management_url, settings.tls) as api:
        try:
            tags = _tags(await api.get("whoami"))
        except httpx2.HTTPError as error:
            return Unusable(f"{api.where}: {_reason(error)}")
        if not _ENOUGH.intersection(tags):
            return Unusable(f"{api.where}: its user has the tags {', '.join(tags) or 'none'}")
        answers = {name: await _answer(api, path, vhost) for name, path in _QUESTIONS.items()}
    return Managed(plan=_existing(settings, answers), prefix=settings.prefix, answers=answers)


def _existing(settings: Settings, answers: Mapping[str, Any | Missing]) -> Plan:
    queues, exchanges = ({row["name"] for row in _rows(answers[kind])} for kind in ("queues", "exchanges"))
    names = names_of(settings)
    topics = sorted(topic for queue in queues if (topic := names.topic_of_ready_queue(queue)) is not None)
    wanted = planned(settings, topics) + slots(names)
    return Plan(
        exchanges=tuple(exchange for exchange in wanted.exchanges if exchange.name in exchanges),
        queues=tuple(queue for queue in wanted.queues if queue.name in queues),
        later=wanted.later,
        bindings=tuple(
            binding
            for binding in wanted.bindings
            if binding.source in exchanges and binding.destination in queues | exchanges
        ),
        former=wanted.former,
    )


def _rows(answer: Any | Missing) -> Sequence[Mapping[str, Any]]:
    return () if isinstance(answer, Missing) else answer


async def _answer(api: Management, path: str, vhost: str) -> Any:
    try:
        return await api.get(path.replace("VHOST", quoted(vhost)))
    except httpx2.HTTPError as error:
        answer = error.response if isinstance(error, httpx2.HTTPStatusError) else None
        if answer is not None and answer.status_code == _CHECK_FAILED and path.startswith("health/checks/"):
            return answer.json()
        asked = path.partition("?")[0].replace("VHOST", vhost)
        return Missing(f"the management API at {api.where} does not answer /api/{asked}: {_reason(error)}")


def _tags(whoami: Mapping[str, Any]) -> Sequence[str]:
    tags = whoami.get("tags", ())
    return [tag for tag in tags.split(",") if tag] if isinstance(tags, str) else list(tags)


def _reason(error: httpx2.HTTPError) -> str:
    if isinstance(error, httpx2.HTTPStatusError):
        try:
            said = error.response.json()["reason"]
        except (ValueError, KeyError, TypeError):
            said = error.response.reason_phrase
        return f"{error.response.status_code} {said}"
    return tls_failure(error) or str(error) or type(error).__name__
