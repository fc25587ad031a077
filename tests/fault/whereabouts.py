"""Describes messages that broke a promise: what the run saw of each, what Redis says, and what the queues hold.

A test gives the text as the message of its assertion. So a red run shows whether a lost message waits in a slot, is
leased, ready or dead, or has no copy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson

from bridge.local.rabbitmq import RabbitNode
from tests.fault.api import Api
from tests.history import History
from tests.shared_servers import SharedRabbit

_COLUMNS = ("name", "leader", "messages", "messages_ready", "messages_unacknowledged", "consumers")
_MOST = 20  # messages


async def whereabouts(history: History, api: Api, topics: Sequence[str], *nodes: RabbitNode) -> str:
    """Returns lines about each of these messages, and about each queue that is not empty.

    `topics`: those of the run. `nodes`: the broker's; the first one that runs is asked.
    """
    wrong = sorted({message_id for ids in history.verdict().wrong.values() for message_id in ids})
    lines = [f"{len(wrong)} messages, of which {min(len(wrong), _MOST)} are described"]
    for message_id in wrong[:_MOST]:
        lines.append(f"{message_id}: {'; '.join(str(event) for event in history.of(message_id))}")
        lines += [line for topic in topics for line in await _recorded(api, topic, message_id)]
    node = next(node for node in nodes if node.running)
    return "\n".join([*lines, *await asyncio.to_thread(_queues, node)])


async def raft_states(nodes: Sequence[RabbitNode]) -> str:
    """Returns, for each node that runs, its queues' leaders and the states of its members. A red run shows whether a
    queue has no leader although most of its members run."""
    running = [node for node in nodes if node.running]
    lines = []
    for node in running:
        queues = await asyncio.to_thread(node.ctl, "list_queues", "name", "leader", "members", "online", "state")
        states = await asyncio.to_thread(node.ctl, "eval", "lists:sort(ets:tab2list(ra_state)).")
        lines += [f"{node.node_name}:", queues, states]
    return "\n".join(lines)


async def _recorded(api: Api, topic: str, message_id: str) -> list[str]:
    """The record and the timeline, if the topic has the message."""
    path = f"/v1/topics/{topic}/messages/{message_id}"
    looked = await api.insist("GET", path)
    if looked.status_code != 200:
        return []
    timeline = await api.insist("GET", f"{path}/timeline")
    return [f"  record: {looked.text}", f"  timeline: {timeline.text}"]


def _queues(node: RabbitNode) -> list[str]:
    vhost = node.vhost if isinstance(node, SharedRabbit) else "/"
    listed = orjson.loads(node.ctl("list_queues", "--vhost", vhost, *_COLUMNS, "--formatter", "json"))
    held = [" ".join(f"{column} {queue[column]}" for column in _COLUMNS) for queue in listed if queue["messages"]]
    # A consumer whose channel is gone may hold messages for ever.
    return [
        *held,
        node.ctl("list_consumers", "--vhost", vhost),
        node.ctl("list_channels", "pid", "connection", "vhost"),
    ]
