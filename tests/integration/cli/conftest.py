"""Provides the commands of a client, for the worker's bridge."""

from __future__ import annotations

import pytest

from tests.integration.cli.calling import Calling


@pytest.fixture
def cli(bridge_url: str) -> Calling:
    return Calling(bridge_url)
