"""Tests that the client has exactly the operations of the OpenAPI document, with their parameters and answers."""

from __future__ import annotations

import dataclasses
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from bridge.http.app import create_app
from delaybridge_client import Client, SyncClient, operations
from delaybridge_client.methods import Method, Methods
from delaybridge_client.operation import Answer, Operation
from delaybridge_client.values.message import Filter, NewMessage
from delaybridge_client.values.page import Page
from delaybridge_client.values.schedule import ScheduledMessage
from tests.unit.http.conftest import StandIn


@dataclass(frozen=True)
class Documented:
    """An operation as the document describes it."""

    method: str
    path: str
    described: dict[str, Any]


def _document() -> dict[str, Any]:
    return create_app(cast(Any, StandIn())).app.openapi()


DOCUMENT = _document()
# The form of a path with namespace and name as two segments is the same operation: the client sends `shop%2Forders`.
DOCUMENTED = {
    described["operationId"]: Documented(method.upper(), path, described)
    for path, methods in DOCUMENT["paths"].items()
    for method, described in methods.items()
    if not described["operationId"].endswith("_in_namespace")
}
METHODS = {name: value.make for name, value in vars(Methods).items() if isinstance(value, Method)}

# What a call needs, for one request of each operation.
ARGUMENTS: dict[str, Any] = {
    "topic": "orders",
    "id": "o-1001",
    "body": {"order": 1001},
    "messages": [NewMessage({"order": 1001})],
    "topics": ["urgent", "normal"],
    "operation_id": "01KBQ5J0G0M8V4Q6W2E9R7T5Y3",
    "lease": timedelta(seconds=30),
    "filter": Filter(topic="orders*"),
    "schedule": "nightly-report",
    "message": ScheduledMessage({"kind": "nightly"}),
    "from_": datetime(2026, 11, 1, tzinfo=UTC),
    "to": datetime(2026, 11, 30, tzinfo=UTC),
    "url": "https://hooks.example.com/orders",
    "secret": "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY=",
}
# Parameters of the API whose arguments have another name or form.
OTHER_NAMES = {
    "body_base64": "body",
    "label": "labels",
    "from": "from_",
    "If-Match": "if_match",
    "Idempotency-Key": "idempotency_key",
}


def _make(name: str) -> Operation[Any]:
    make = METHODS[name]
    required = [
        parameter.name
        for parameter in inspect.signature(make).parameters.values()
        if parameter.default is inspect.Parameter.empty
    ]
    return make(**{one: ARGUMENTS[one] for one in required})


def _schema(described: dict[str, Any]) -> dict[str, Any]:
    content = described.get("requestBody", {}).get("content", {})
    if not content:
        return {}
    reference: str = content["application/json"]["schema"]["$ref"]
    schema: dict[str, Any] = DOCUMENT["components"]["schemas"][reference.rpartition("/")[2]]
    return schema


def _arguments(make: Callable[..., Any]) -> set[str]:
    """The arguments, with the fields of a filter or of a message."""
    names = set(inspect.signature(make).parameters)
    for argument, cls in (("filter", Filter), ("messages", NewMessage)):
        if argument in names:
            names |= {field.name for field in dataclasses.fields(cls)}
    return names


def test_the_methods_are_the_operations_of_the_document() -> None:
    assert set(METHODS) == set(DOCUMENTED)
    assert set(METHODS) == set(operations.__all__)


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_method_and_path_are_those_of_the_document(name: str) -> None:
    operation = _make(name)
    assert (operation.method, operation.path) == (DOCUMENTED[name].method, DOCUMENTED[name].path)


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_every_parameter_of_the_document_is_an_argument(name: str) -> None:
    described = DOCUMENTED[name].described
    documented = {one["name"] for one in described.get("parameters", ())} | set(
        _schema(described).get("properties", ())
    )
    wanted = {OTHER_NAMES.get(one, one) for one in documented}
    assert wanted - _arguments(METHODS[name]) == set()


@pytest.mark.parametrize("name", sorted(DOCUMENTED))
def test_answers_of_the_document_are_read_whole(name: str) -> None:
    operation = _make(name)
    for status, answer in DOCUMENTED[name].described["responses"].items():
        if not status.startswith("2"):
            continue
        (media,) = answer["content"].values()
        example = media["examples"]["answer"]["value"]
        content = example.encode() if isinstance(example, str) else json.dumps(example).encode()
        read = operation.read(Answer(int(status), {}, content))
        assert _unread(read, example) == []


def _unread(value: Any, members: Any) -> list[str]:
    """The members of the JSON that the value has no field for."""
    if isinstance(members, list) and isinstance(value, tuple):
        return [left for one, other in zip(value, members, strict=True) for left in _unread(one, other)]
    if not isinstance(members, dict) or not dataclasses.is_dataclass(value):
        return []
    unread = []
    for key, member in members.items():
        if isinstance(value, Page) and isinstance(member, list):
            unread += _unread(value.items, member)
            continue
        field = next(
            (name for name in (key, key.removesuffix("_ms"), key.removesuffix("_s")) if hasattr(value, name)), ""
        )
        unread += _unread(getattr(value, field), member) if field else [key]
    return unread


@pytest.mark.parametrize("client", [Client, SyncClient])
def test_both_clients_have_every_method(client: type[Any]) -> None:
    assert all(hasattr(client, name) for name in DOCUMENTED)
