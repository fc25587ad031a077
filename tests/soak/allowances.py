"""Says how much more there may be after a round, where that is no leak."""

from __future__ import annotations

from typing import Final

from tests.soak.state import Kind

LABELLED: Final = "bridge.metrics.topics._labelled"
_BOUNDED: Final = (LABELLED, "bridge.model.recent.Recent._values")  # 200 and 20,000 entries
_OF_TOPICS: Final = ("prometheus_client.", "_thread.lock", "bridge.model.values.Policy")
_OF_LABEL: Final = 80  # objects of one type; a topic has up to 27 series
_FEW: Final = 100  # what a moment has more than another: windows, retries, breaks of connections
_POOL: Final = 32  # connections to Redis, and channels that take messages, grow with the calls that run at once
_BYTES, _BYTES_OF_LABEL = 16 << 20, 64 << 10  # freed blocks share pages with live ones, so the allocator keeps pages
_BLOCKS, _BLOCKS_OF_LABEL = 5_000, 600


def allowed(kind: Kind, name: str, before: int, labels: int) -> int:
    """Returns how much more there may be of a name. `labels`: topics that got their labels since, which they keep."""
    match kind:
        case Kind.FILE if name == "socket to Redis":
            return max(0, _POOL - before)
        case Kind.CHANNEL:
            return max(0, _POOL - before)
        case Kind.TASK if name == "Channel._reader":  # of each channel
            return max(0, 2 * _POOL - before)
        case Kind.ENTRIES if name in _BOUNDED:
            return labels * 4 + _FEW
        case Kind.ENTRIES:
            return _FEW
        case Kind.OBJECTS if name.startswith(_OF_TOPICS):
            return labels * _OF_LABEL + _FEW
        case Kind.OBJECTS:
            return _FEW
        case Kind.MEMORY if name == "blocks":
            return _BLOCKS + labels * _BLOCKS_OF_LABEL
        case Kind.MEMORY:
            return _BYTES + labels * _BYTES_OF_LABEL
        case _:
            return 0
