"""Calls camellia's wire, and holds answers that several tests expect."""

from __future__ import annotations

from typing import Any

import httpx2

from tests.wires.camellia_service import BORN_MS

NONE_PULLED: dict[str, Any] = {"code": 200, "msg": None, "delayMsgList": []}
SUCCESS = {"code": 200, "msg": "success"}
ABC = {
    "topic": "orders",
    "msgId": "m-1",
    "msg": "abc",
    "produceTime": BORN_MS,
    "triggerTime": BORN_MS + 5_000,
    "expireTime": BORN_MS + 65_000,
    "maxRetry": 3,
    "retry": 0,
    "status": 1,
}


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


async def post(client: httpx2.AsyncClient, call: str, **form: Any) -> Any:
    answer = await client.post(f"/delayQueue/{call}", data=form)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    return answer.json()
