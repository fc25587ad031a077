"""Tests that the OpenAPI document has every operation, with examples of requests, answers and problems."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest
from fastapi import FastAPI

from bridge.http.server.fast_path import FastPath

_BODY_PROBLEMS = {"400", "413", "422"}
# A client is made from these ids, so an id never changes.
_OF_TOPICS = {
    "send": "post /messages",
    "send_many": "post /messages/batch",
    "list_messages": "get /messages",
    "look_up": "get /messages/{id}",
    "delete": "delete /messages/{id}",
    "move": "patch /messages/{id}",
    "look_at_timeline": "get /messages/{id}/timeline",
    "pull": "post /pull",
    "ack_many": "post /ack",
    "ack": "post /messages/{id}/ack",
    "nack": "post /messages/{id}/nack",
    "extend": "post /messages/{id}/extend",
    "list_dead": "get /dead",
    "replay": "post /dead/{id}/replay",
    "replay_many": "post /dead/replay",
    "drop": "delete /dead/{id}",
    "drop_many": "delete /dead",
    "look_at_topic": "get ",
    "put_policy": "put ",
    "patch_policy": "patch ",
    "remove_topic": "delete ",
    "pause": "post /pause",
    "resume": "post /resume",
    "look_at_subscription": "get /subscription",
    "subscribe": "put /subscription",
    "unsubscribe": "delete /subscription",
}
_OTHERS = {
    "pull_by_priority": "post /v1/pull",
    "search": "get /v1/messages",
    "delete_many": "post /v1/messages:delete",
    "move_many": "post /v1/messages:move",
    "run_many_now": "post /v1/messages:run-now",
    "replay_matching": "post /v1/messages:replay",
    "list_operations": "get /v1/operations",
    "look_at_operation": "get /v1/operations/{operation_id}",
    "cancel_operation": "post /v1/operations/{operation_id}/cancel",
    "list_topics": "get /v1/topics",
    "list_subscriptions": "get /v1/subscriptions",
    "overview": "get /v1/overview",
    "list_schedules": "get /v1/schedules",
    "put_schedule": "put /v1/schedules/{schedule}",
    "look_at_schedule": "get /v1/schedules/{schedule}",
    "remove_schedule": "delete /v1/schedules/{schedule}",
    "next_ticks": "get /v1/schedules/{schedule}/next",
    "pause_schedule": "post /v1/schedules/{schedule}/pause",
    "resume_schedule": "post /v1/schedules/{schedule}/resume",
    "trigger_schedule": "post /v1/schedules/{schedule}/trigger",
    "backfill_schedule": "post /v1/schedules/{schedule}/backfill",
    "list_slots": "get /v1/slots",
    "list_actions": "get /v1/actions",
    "open_session": "post /v1/session",
    "look_at_session": "get /v1/session",
    "close_session": "delete /v1/session",
    "live": "get /health/live",
    "ready": "get /health/ready",
    "metrics": "get /metrics",
}
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?(Z|[+-]\d\d:\d\d)")
_NAMED_AS_INSTANT = re.compile(r"(^|_)(at|until|after|before)$")
_INSTANTS = jsonschema.FormatChecker(formats=())


@_INSTANTS.checks("date-time")
def _is_instant(value: object) -> bool:
    return not isinstance(value, str) or _INSTANT.fullmatch(value) is not None


@pytest.fixture
def document(app: FastPath[FastAPI]) -> dict[str, Any]:
    return app.app.openapi()


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def _has_examples(where: str, content: dict[str, Any]) -> None:
    assert content, where
    for media in content.values():
        assert media["examples"], where


def _examples(document: dict[str, Any]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Every example of a request, a parameter and an answer: where it is, the value, its schema."""

    def whole(schema: dict[str, Any]) -> dict[str, Any]:
        return {**schema, "components": document["components"]}

    for where, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            yield f"{where} {parameter['name']}", parameter["example"], whole(parameter["schema"])
        described = {"request": operation.get("requestBody", {"content": {}}), **operation["responses"]}
        for part, content in ((part, one["content"]) for part, one in described.items()):
            for media in content.values():
                for example in media["examples"].values():
                    yield f"{where} {part}", example["value"], whole(media["schema"])


def _validator(schema: dict[str, Any]) -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(schema, format_checker=_INSTANTS)


def _with_one_broken(value: Any) -> Iterator[Any]:
    """The value again for each instant in it, with a text in its place that is none."""
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        yield "soon"
    elif isinstance(value, dict | list):
        for key, member in value.items() if isinstance(value, dict) else enumerate(value):
            for broken in _with_one_broken(member):
                copy: Any = value.copy()
                copy[key] = broken
                yield copy


def test_the_document_has_every_operation_by_its_id(document: dict[str, Any]) -> None:
    expected = dict(_OTHERS)
    for name, call in _OF_TOPICS.items():
        method, rest = call.split(" ")
        expected[name] = f"{method} /v1/topics/{{topic}}{rest}"
        expected[f"{name}_in_namespace"] = f"{method} /v1/namespaces/{{namespace}}/topics/{{name}}{rest}"
    assert {operation["operationId"]: where for where, operation in _operations(document)} == expected


def test_the_document_says_whose_it_is_and_where_the_bridge_is(document: dict[str, Any]) -> None:
    assert document["servers"] == [{"url": ".", "description": "The bridge that served this document"}]
    assert document["info"]["contact"] == {"name": "The maintainers of delaybridge"}
    assert document["info"]["license"] == {"name": "Apache License 2.0", "identifier": "Apache-2.0"}


def test_no_two_models_share_a_name(document: dict[str, Any]) -> None:
    # pydantic tells them apart by their modules, and clients would have such names.
    assert not [name for name in document["components"]["schemas"] if "__" in name]


def test_every_request_has_an_example_and_its_problems(document: dict[str, Any]) -> None:
    for where, operation in _operations(document):
        assert operation["description"], where
        for parameter in operation.get("parameters", ()):
            assert "example" in parameter, where
        if body := operation.get("requestBody"):
            _has_examples(where, body["content"])
            assert operation["responses"].keys() >= _BODY_PROBLEMS, where


def test_every_answer_has_an_example(document: dict[str, Any]) -> None:
    for where, operation in _operations(document):
        for status, response in operation["responses"].items():
            assert "X-Request-ID" in response["headers"], (where, status)
            _has_examples(f"{where} {status}", response["content"])
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], (where, status)
        assert "500" in operation["responses"], where
        if "/v1/" in where:
            assert operation["responses"].keys() >= {"422", "503"}, where
        if "{id}" in where:
            assert "404" in operation["responses"], where


def test_every_example_is_valid(document: dict[str, Any]) -> None:
    for where, value, schema in _examples(document):
        found = [error.message for error in _validator(schema).iter_errors(value)]
        assert not found, (where, found)


def test_every_instant_of_an_example_has_its_format(document: dict[str, Any]) -> None:
    checked = 0
    for where, value, schema in _examples(document):
        validator = _validator(schema)
        for broken in _with_one_broken(value):
            assert not validator.is_valid(broken), f"{where}: a field of {broken} lacks `format: date-time`"
            checked += 1
    assert checked > 100


def test_every_field_that_is_named_as_an_instant_has_its_format(document: dict[str, Any]) -> None:
    # Those that no example has: `null` in all of them.
    fields = [
        (name, field)
        for one in document["components"]["schemas"].values()
        for name, field in one.get("properties", {}).items()
    ]
    fields += [
        (parameter["name"], parameter["schema"])
        for _, operation in _operations(document)
        for parameter in operation.get("parameters", ())
    ]
    found = [
        name for name, field in fields if _NAMED_AS_INSTANT.search(name) and '"date-time"' not in json.dumps(field)
    ]
    assert not found


async def test_a_browser_at_the_root_is_led_to_the_console(client: httpx2.AsyncClient) -> None:
    led = await client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert (led.status_code, led.headers["location"]) == (303, "console")  # relative, for proxies with a path


async def test_the_root_names_the_documentation(client: httpx2.AsyncClient) -> None:
    page = await client.get("/")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    links = re.findall(r'href="([^"]+)"', page.text)
    assert {"docs", "openapi.json", "metrics"} < set(links)
    for link in ("docs", "openapi.json"):
        assert (await client.get(f"/{link}")).status_code == 200
    assert (await client.head("/")).status_code == 200


@pytest.mark.parametrize("path", ["/openapi.json", "/docs"])
async def test_the_document_is_served(client: httpx2.AsyncClient, path: str) -> None:
    assert (await client.get(path)).status_code == 200
