"""Tests that the OpenAPI document has every operation, with examples of requests, answers and problems."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest
from fastapi import FastAPI

from bridge.http.server.fast_path import FastPath

_BODY_PROBLEMS = {"400", "413", "422"}
_CALLS = {
    ("post", "/messages"), ("post", "/messages/batch"), ("get", "/messages"), ("get", "/messages/{id}"),
    ("delete", "/messages/{id}"), ("patch", "/messages/{id}"), ("post", "/pull"), ("post", "/ack"),
    ("post", "/messages/{id}/ack"), ("post", "/messages/{id}/nack"), ("post", "/messages/{id}/extend"),
    ("get", "/messages/{id}/timeline"),
    ("get", "/dead"), ("post", "/dead/{id}/replay"), ("post", "/dead/replay"), ("delete", "/dead"),
    ("delete", "/dead/{id}"), ("get", ""), ("put", ""), ("patch", ""), ("delete", ""),
    ("post", "/pause"), ("post", "/resume"),
    ("get", "/subscription"), ("put", "/subscription"), ("delete", "/subscription"),
}  # fmt: skip


@pytest.fixture
def document(app: FastPath[FastAPI]) -> dict[str, Any]:
    return app.app.openapi()


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield f"{method} {path}", operation


def _check(document: dict[str, Any], where: str, content: dict[str, Any]) -> None:
    """Checks that every media type has an example, and that each example is valid by its schema."""
    assert content, where
    for media in content.values():
        assert media["examples"], where
        for example in media["examples"].values():
            schema = {**media["schema"], "components": document["components"]}
            jsonschema.Draft202012Validator(schema).validate(example["value"])


def test_the_document_has_every_operation(document: dict[str, Any]) -> None:
    found = {tuple(where.split(" ", 1)) for where, _ in _operations(document)}
    topics = {(method, "/v1/topics/{topic}" + rest) for method, rest in _CALLS}
    namespaces = {(method, "/v1/namespaces/{namespace}/topics/{name}" + rest) for method, rest in _CALLS}
    others = {("post", "/v1/pull"), ("get", "/v1/topics"), ("get", "/health/live"), ("get", "/health/ready")}
    operators = {
        ("get", "/metrics"),
        ("get", "/v1/actions"),
        ("post", "/v1/messages:delete"),
        ("post", "/v1/messages:move"),
        ("post", "/v1/messages:run-now"),
        ("post", "/v1/messages:replay"),
        ("get", "/v1/operations"),
        ("get", "/v1/operations/{operation_id}"),
        ("post", "/v1/operations/{operation_id}/cancel"),
        ("get", "/v1/messages"),
        ("get", "/v1/overview"),
        ("get", "/v1/slots"),
    }
    sessions = {(method, "/v1/session") for method in ("post", "get", "delete")}
    assert found == topics | namespaces | others | operators | sessions | {("get", "/v1/subscriptions")}


def test_operation_ids_are_unique(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in _operations(document)]
    assert len(ids) == len(set(ids))


def test_every_request_has_an_example_and_its_problems(document: dict[str, Any]) -> None:
    for where, operation in _operations(document):
        assert operation["description"], where
        for parameter in operation.get("parameters", ()):
            assert "example" in parameter, where
        if body := operation.get("requestBody"):
            _check(document, where, body["content"])
            assert operation["responses"].keys() >= _BODY_PROBLEMS, where


def test_every_answer_has_an_example(document: dict[str, Any]) -> None:
    for where, operation in _operations(document):
        for status, response in operation["responses"].items():
            assert "X-Request-ID" in response["headers"], (where, status)
            _check(document, f"{where} {status}", response["content"])
            if int(status) >= 400:
                assert list(response["content"]) == ["application/problem+json"], (where, status)
        assert "500" in operation["responses"], where
        if "/v1/" in where:
            assert operation["responses"].keys() >= {"422", "503"}, where
        if "{id}" in where:
            assert "404" in operation["responses"], where


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
