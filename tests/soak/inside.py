"""Runs the program `delaybridge`, and on SIGUSR1 writes what its process holds to the file in SOAK_INSIDE, as JSON."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import threading
from collections import Counter, deque
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

FILE: Final = "SOAK_INSIDE"
_GROWING: Final = (dict, list, set, deque)
_UNNAMED: Final = (*_GROWING, tuple, frozenset)  # counted by what holds them


def look_inside() -> dict[str, dict[str, int]]:
    """Returns the running tasks by the name of their coroutine, the threads, the objects by type, and the entries in
    containers by the attribute that holds the container."""
    gc.collect()
    objects = gc.get_objects()
    tasks = Counter(
        getattr(task.get_coro(), "__qualname__", "?") for task in asyncio.all_tasks(asyncio.get_running_loop())
    )
    entries: Counter[str] = Counter()
    for holder in (*objects, *sys.modules.values()):
        entries.update(_entries(holder))
    return {
        "tasks": tasks,
        "threads": Counter(thread.name.rstrip("0123456789") for thread in threading.enumerate()),
        "entries": entries,
        "objects": Counter(_name(type(one)) for one in objects if not isinstance(one, _UNNAMED)),
        # Every small object has a block, also strings and numbers, which the collector does not list.
        "memory": {"blocks": sys.getallocatedblocks()},
    }


def _entries(holder: Any) -> dict[str, int]:
    """Returns the lengths of the containers that an object or module of the bridge holds."""
    name = holder.__name__ if isinstance(holder, ModuleType) else _name(type(holder))
    if not name.startswith(("bridge.", "topology.")) or isinstance(holder, type):
        return {}
    return {
        f"{name}.{attribute}": len(value)
        for attribute, value in _attributes(holder)
        if isinstance(value, _GROWING) and not attribute.startswith("__")
    }


def _attributes(holder: Any) -> Iterator[tuple[str, Any]]:
    yield from getattr(holder, "__dict__", {}).items()
    for base in type(holder).__mro__:
        for slot in vars(base).get("__slots__", ()):
            if hasattr(holder, slot):
                yield slot, getattr(holder, slot)


def _name(of: type) -> str:
    return f"{of.__module__}.{of.__qualname__}"


def _write(*_: object) -> None:
    file = Path(os.environ[FILE])
    draft = file.with_suffix(".draft")
    draft.write_text(json.dumps(look_inside()))
    draft.replace(file)


if __name__ == "__main__":
    from bridge.__main__ import main

    signal.signal(signal.SIGUSR1, _write)
    main()
