"""Asks a Prometheus for the samples of expressions."""

from __future__ import annotations

import math
from time import monotonic

import httpx2

from tests.waiting import pause

PATIENCE_S = 60.0


async def values(client: httpx2.AsyncClient, expression: str) -> list[float]:
    """The expression's samples now, without those that are no number. There are none before Prometheus listens."""
    try:
        asked = await client.get("query", params={"query": expression})
    except httpx2.TransportError:
        return []
    if asked.status_code == 503:  # it is starting
        return []
    assert asked.status_code == 200, asked.text
    samples = [float(sample["value"][1]) for sample in asked.json()["data"]["result"]]
    return [value for value in samples if not math.isnan(value)]


async def until_answered(client: httpx2.AsyncClient, *wanted: str) -> None:
    """Asks until each expression has had samples."""
    left, end_s = set(wanted), monotonic() + PATIENCE_S
    while left:
        assert monotonic() < end_s, f"no samples: {left}"
        left -= {expression for expression in left if await values(client, expression)}
        await pause()
