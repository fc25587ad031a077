"""Tests that the TypeScript client has the types of the API."""

from __future__ import annotations

import httpx2

from tests.clients.node import needs_node
from tests.clients.typescript.schema import PACKAGE, SCHEMA, written


def test_the_types_are_those_of_the_document(bridge_url: str) -> None:
    needs_node(PACKAGE)
    document = httpx2.get(f"{bridge_url}/openapi.json", timeout=90).json()

    assert written(document) == SCHEMA.read_text(), "the OpenAPI document has changed: run make clients, and commit"
