"""Calls the bridge over the wires of lmstfy, camellia and ouqiang."""

from __future__ import annotations

from typing import Any

from bridge.http.wires.digested_names import topic_of
from tests.soak.calls import Calls
from tests.soak.letters import remove
from tests.soak.topics import JOBS, NAMESPACE, PASSING
from tests.waiting import pause

_LMSTFY = f"/api/{NAMESPACE}/{JOBS}"
_HEADERS = {"X-Token": "any"}


async def lmstfy(calls: Calls, _: int) -> None:
    """Publishes a job and deletes it, and publishes another and consumes it."""
    gone = await calls.ask("PUT", f"{_LMSTFY}?delay=2&ttl=30&tries=1", headers=_HEADERS, content=b"job", expect=(201,))
    await calls.ask("DELETE", f"{_LMSTFY}/job/{gone['job_id']}", headers=_HEADERS, expect=(204,))
    await calls.ask("PUT", f"{_LMSTFY}?ttl=30&tries=3", headers=_HEADERS, content=b"job", expect=(201,))
    job = await calls.ask("GET", f"{_LMSTFY}?timeout=2&ttr=2", headers=_HEADERS, expect=(200, 404))
    if "job_id" in job:
        await calls.ask("DELETE", f"{_LMSTFY}/job/{job['job_id']}", headers=_HEADERS, expect=(204,))


async def camellia(calls: Calls, number: int) -> None:
    """Sends to a topic whose name needs a digest, and removes the topic."""
    name = f"{PASSING}:{calls.mark}:{number}"

    async def post(call: str, **form: Any) -> Any:
        while (answer := await calls.ask("POST", f"/camellia/delayQueue/{call}", data={"topic": name, **form}))[
            "code"
        ] >= 500:
            calls.busy.append(f"{call}: {answer}")
            await pause()
        return answer

    sent = (await post("sendMsg", msg="over camellia", delayMillis=0))["delayMsg"]
    await post("longPollingMsg", longPollingTimeoutMillis=2_000, ackTimeoutMillis=2_000)
    await post("ackMsg", msgId=sent["msgId"], ack="true")
    await remove(calls, topic_of(name))


async def ouqiang(calls: Calls, number: int) -> None:
    """Pushes a job under an id that an earlier round used in another topic, pops it, and finishes it by its id.

    The topic is its own: a pop in a shared one may take the job of another call, which then waits for none.
    """
    name, job_id = f"{PASSING}{calls.mark}-{number}-jobs", f"job-{number}"

    async def post(path: str, **given: Any) -> None:
        # The wire answers every failure with HTTP 200.
        while (answer := await calls.ask("POST", path, given))["code"] != 0:
            calls.busy.append(f"{path}: {answer}")
            await pause()

    await post("/push", topic=name, id=job_id, delay=1, ttr=2, body="over ouqiang")
    await post("/get", id=job_id)
    await post("/pop", topic=name)
    await post("/finish", id=job_id)
    await remove(calls, topic_of(name))
