"""Reads the log of a bridge that a test has started."""

from __future__ import annotations

from typing import Any

import orjson

from bridge.local.bridge import BridgeProcess
from tests.waiting import pause


def lines(bridge: BridgeProcess, event: str, **members: Any) -> list[dict[str, Any]]:
    """The lines of this event so far that have these members."""
    logged = [orjson.loads(line) for line in bridge.log_file.read_bytes().splitlines() if line.startswith(b"{")]
    return [line for line in logged if line["event"] == event and members.items() <= line.items()]


async def until_logged(bridge: BridgeProcess, event: str, **members: Any) -> dict[str, Any]:
    """Waits for the line: the bridge may write it after its answer. The test's time limit ends the wait."""
    while not (found := lines(bridge, event, **members)):
        await pause()
    assert len(found) == 1, found
    return found[0]
