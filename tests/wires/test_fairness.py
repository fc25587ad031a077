"""Tests that v1 and any wire find, pull, acknowledge and delete each other's messages.

The tables are those of docs/wires.md, "From one wire to another".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from itertools import product
from random import randrange
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.model.durations import parse_instant_ms
from tests.docs.documents import rows, section, text
from tests.integration.topic import Topic
from tests.wires.fair import WIRES, Wire
from tests.wires.lmstfy import Lmstfy

FOR_EVER = 2_147_483_647
LONG_S = 90  # less than the ttl of 100 s, which lmstfy counts from the publish
# What the bridge stores for a send with a delay of 5 s, a ttl of 100 s and 3 deliveries, by wire. Times are in ms, and
# the ttl counts from the due moment.
SENT: dict[str, dict[str, Any]] = {
    "v1": {"delay": 5_000, "ttl": 100_000, "max_retry": 2, "content_type": "text/plain"},
    "camellia": {"delay": 5_000, "ttl": 100_000, "max_retry": 2, "content_type": "text/plain; charset=utf-8"},
    "lmstfy": {"delay": 5_000, "ttl": 95_000, "max_retry": 2, "content_type": "application/octet-stream"},
    "ouqiang": {"delay": 5_000, "ttl": None, "max_retry": FOR_EVER, "content_type": "text/plain; charset=utf-8"},
    "changsongl": {"delay": 5_000, "ttl": None, "max_retry": FOR_EVER, "content_type": "text/plain; charset=utf-8"},
    "youzan": {"delay": 5_000, "ttl": None, "max_retry": FOR_EVER, "content_type": "text/plain; charset=utf-8"},
    "tasks": {"delay": None, "ttl": None, "max_retry": 3, "content_type": "text/plain; charset=utf-8"},
}
# The names that each wire with a look-up uses for the states of its own messages.
STATES: dict[str, dict[str, Any]] = {
    "v1": {state: state for state in ("waiting", "ready", "leased", "acked", "deleted")},
    "camellia": {"waiting": 1, "ready": 2, "leased": 3, "acked": 4, "deleted": 7},
    "lmstfy": {"waiting": "found", "ready": "found", "leased": "found", "acked": None, "deleted": None},
    "ouqiang": {"waiting": "found", "ready": "found", "leased": "found", "acked": None, "deleted": None},
    "youzan": {"waiting": "delay", "ready": "ready", "leased": "reserved", "acked": "deleted", "deleted": "deleted"},
}
# The ids of these wires have no topic. So they find a message that they did not send or pop only if a job wire sent it.
BY_ID_ALONE = {"ouqiang", "youzan"}
OF_JOBS = {"ouqiang", "changsongl", "youzan"}
# What agrees with v1 agrees with each other. The job wires share ids.
PAIRS = [
    (one, other)
    for one, other in product(WIRES, WIRES)
    if "v1" in (one, other) or one == other or {one, other} <= OF_JOBS
]
DELETES = [(one, other) for one, other in PAIRS if other != "tasks" and (other not in BY_ID_ALONE or one in OF_JOBS)]
FINDS = [(one, other) for one, other in DELETES if other in STATES]


@pytest_asyncio.fixture(scope="module")
async def client(lmstfy: Lmstfy) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{lmstfy.own_port}", timeout=200) as client:
        yield client


Named = Callable[[str], Wire]


@pytest.fixture
def named(client: httpx2.AsyncClient, lmstfy: Lmstfy) -> Named:
    return lambda name: WIRES[name](client, lmstfy)


def fresh_topic(*wires: str) -> str:
    name = uuid4().hex[:16]
    return f"ns-{name}/orders" if "lmstfy" in wires else f"t-{name}"


def fresh_id() -> str:
    """Returns an id that every wire accepts: some accept only numbers."""
    return str(randrange(10**17, 10**18))


def test_the_documented_table_has_every_wire_and_its_state_names() -> None:
    documented = section(text("docs/wires.md"), "From one wire to another")
    heading = next(line for line in documented.splitlines() if line.startswith("|"))
    assert [cell.strip().lower() for cell in heading.strip("|").split("|")][1:] == list(WIRES)
    nothing = {"404": None, "null": None}
    table = {
        cells[0]: dict(zip(WIRES, (cell.strip("`") for cell in cells[1:]), strict=True)) for cells in rows(documented)
    }
    assert list(table) == ["topic", "id", "body", "delay", "ttl", "retries", "lease", *STATES["v1"]]
    for wire, names in STATES.items():
        assert {state: nothing.get(table[state][wire], table[state][wire]) for state in names} == {
            state: name if name is None else str(name) for state, name in names.items()
        }
    for wire in WIRES.keys() - STATES.keys():
        assert {table[state][wire] for state in STATES["v1"]} == {"no look-up"}


@pytest.mark.parametrize("wire", WIRES)
async def test_a_message_has_the_terms_that_its_wire_sent(wire: str, named: Named) -> None:
    one, topic = named(wire), fresh_topic(wire)
    sent = await named("v1").topic(topic).look(await one.send(topic, fresh_id(), delay_s=5))
    created_ms, due_ms = parse_instant_ms(sent["created_at"]), parse_instant_ms(sent["due_at"])
    ttl_ms = sent["expires_at"] and parse_instant_ms(sent["expires_at"]) - due_ms
    expected = SENT[wire]
    if expected["delay"] is None:
        assert due_ms % 1_000 == 0  # a task is due at a whole second
        created_ms = due_ms
    assert {
        "delay": (due_ms - created_ms) or None,
        "ttl": ttl_ms,
        "max_retry": sent["max_retry"],
        "content_type": sent["content_type"],
    } == expected
    assert (sent["state"], sent["body"] if "body" in sent else sent["body_base64"]) in (
        ("waiting", "hello"),
        ("waiting", "aGVsbG8="),
    )


@pytest.mark.parametrize("wire", STATES)
async def test_each_wire_shows_its_own_name_of_a_state(wire: str, named: Named) -> None:
    one, topic = named(wire), fresh_topic(wire)
    own = named("v1").topic(topic)
    waiting_id = await one.send(topic, fresh_id(), delay_s=LONG_S)
    states = {"waiting": await one.find(topic, waiting_id)}
    await own.delete(waiting_id)
    states["deleted"] = await one.find(topic, waiting_id)
    ready_id = await one.send(topic, fresh_id(), delay_s=1)
    await own.until_state(ready_id, "ready")
    states["ready"] = await one.find(topic, ready_id)
    await own.pull_one(lease="1h")
    states["leased"] = await one.find(topic, ready_id)
    await own.call("POST", "/ack", {"ids": [ready_id]})
    states["acked"] = await one.find(topic, ready_id)
    assert states == STATES[wire]


@pytest.mark.parametrize(("sends", "pulls"), PAIRS)
async def test_a_wire_pulls_and_acknowledges_the_messages_of_others(sends: str, pulls: str, named: Named) -> None:
    one, other, topic = named(sends), named(pulls), fresh_topic(sends, pulls)
    message_id = await one.send(topic, fresh_id(), delay_s=1)
    assert await other.pull(topic) == (message_id, "hello")
    await other.ack(topic, message_id)
    assert (await named("v1").topic(topic).look(message_id))["state"] == "acked"


@pytest.mark.parametrize(("sends", "finds"), FINDS)
async def test_a_wire_finds_the_messages_of_others(sends: str, finds: str, named: Named) -> None:
    one, other, topic = named(sends), named(finds), fresh_topic(sends, finds)
    message_id = await one.send(topic, fresh_id(), delay_s=LONG_S)
    assert await other.find(topic, message_id) == STATES[finds]["waiting"]
    assert await other.find(topic, fresh_id()) is None


@pytest.mark.parametrize(("sends", "deletes"), DELETES)
async def test_a_wire_deletes_the_messages_of_others(sends: str, deletes: str, named: Named) -> None:
    one, other, topic = named(sends), named(deletes), fresh_topic(sends, deletes)
    message_id = await one.send(topic, fresh_id(), delay_s=LONG_S)
    await other.delete(topic, message_id)
    assert (await named("v1").topic(topic).look(message_id))["state"] == "deleted"


@pytest.mark.parametrize(
    ("sends", "by_id"), [(one, other) for one in ("v1", "lmstfy") for other in sorted(BY_ID_ALONE)]
)
async def test_a_wire_with_global_ids_does_not_change_unpopped_messages_of_others(
    sends: str, by_id: str, named: Named
) -> None:
    one, other, topic = named(sends), named(by_id), fresh_topic(sends)
    message_id = await one.send(topic, fresh_id(), delay_s=LONG_S)
    assert await other.find(topic, message_id) is None
    await other.delete(topic, message_id)
    assert (await named("v1").topic(topic).look(message_id))["state"] == "waiting"


async def test_changsongls_wire_cannot_name_a_topic_with_a_namespace(client: httpx2.AsyncClient, named: Named) -> None:
    topic = fresh_topic("lmstfy")
    await named("lmstfy").send(topic, "", delay_s=LONG_S)
    assert (await client.get(f"/topic/{topic.replace('/', '%2F')}/job")).status_code == 404


async def test_a_task_is_read_by_its_number_from_any_wire(client: httpx2.AsyncClient, named: Named) -> None:
    topic, number = fresh_topic(), fresh_id()
    await named("v1").send(topic, number, delay_s=1)
    await Topic(client, topic).until_state(number, "ready")
    documented = await named("tasks").posted("/delay/task/pull", topic=topic, task_id=int(number))
    assert (documented["task_id"], documented["content"]) == (int(number), "hello")
    assert await Topic(client, topic).state(number) == "acked"
