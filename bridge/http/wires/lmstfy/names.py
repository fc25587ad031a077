"""Checks the names of namespaces and queues, and derives the topic of a queue.

A name has up to 255 bytes, but each half of a topic's name has up to 100. A longer name is cut, and a dot and the
name's digest are added. No name of this wire contains a dot, so no other queue has the same topic.
"""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from bridge.http.wires.lmstfy.answers import Refusal

LONGEST: Final = 255
LONGEST_PART: Final = 100
_DIGEST: Final = 32
_NAME: Final = re.compile(r"[-_A-Za-z0-9]+")
_QUEUES: Final = re.compile(r"[-_,A-Za-z0-9]+")


def check(namespace: str, queue: str) -> None:
    """Checks the names of one namespace and one queue.

    Raises:
        Refusal: a name is too long, or has forbidden characters.
    """
    if max(_length(namespace), _length(queue)) > LONGEST:
        raise Refusal(400, error="namespace or queue name too long")
    if not is_name(namespace):
        raise Refusal(400, error="namespace name contains forbidden characters")
    if queue.startswith("_") or not is_name(queue):
        raise Refusal(400, error="queue name contains forbidden characters")


def check_queues(namespace: str, queues: str) -> None:
    """Checks the names in a consume. `queues`: one or more names with commas between them. Like lmstfy, this function
    does not check the names' lengths.

    Raises:
        Refusal: a name has forbidden characters.
    """
    if not is_name(namespace):
        raise Refusal(400, error="namespace name contains forbidden characters")
    if not _QUEUES.fullmatch(queues):
        raise Refusal(400, error="queue name contains forbidden characters")


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def topic_of(namespace: str, queue: str) -> str:
    return f"{_part(namespace)}/{_part(queue)}"


def is_shortened(namespace: str, queue: str) -> bool:
    """Returns whether the queue's topic holds a digest, because the namespace or the queue has more than 100
    characters."""
    return max(len(namespace), len(queue)) > LONGEST_PART


def _part(name: str) -> str:
    if len(name) <= LONGEST_PART:
        return name
    return f"{name[: LONGEST_PART - _DIGEST - 1]}.{sha256(name.encode()).hexdigest()[:_DIGEST]}"


def _length(name: str) -> int:
    return len(name.encode(errors="replace"))
