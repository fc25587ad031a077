"""Tests the end of a round, without servers."""

from __future__ import annotations

from random import Random

import httpx2
import pytest

from tests.soak.calls import Calls
from tests.soak.load import end_all


@pytest.mark.asyncio
async def test_topic_that_a_refused_call_made_late_is_removed_and_not_asked_again() -> None:
    topics = {"passing-a-1", "pulled"}

    def answer(request: httpx2.Request) -> httpx2.Response:
        _, _, *rest = request.url.path.strip("/").split("/")
        if not rest:
            counts = dict.fromkeys(("waiting", "ready", "leased", "dead"), 0)
            return httpx2.Response(200, json={"topics": [{"topic": name, "counts": counts} for name in topics]})
        if rest[0] not in topics:
            return httpx2.Response(404)
        if rest[1:] == []:
            topics.remove(rest[0])
        return httpx2.Response(200, json={"messages": []})

    async with httpx2.AsyncClient(base_url="http://bridge", transport=httpx2.MockTransport(answer)) as http:
        calls = Calls(http, "a", Random(1))
        calls.busy.append("POST /v1/topics/passing-a-1/messages: 503")
        await end_all(calls)
    assert topics == {"pulled"}
