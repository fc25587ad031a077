"""Reads the answers of Redis. RESP2 and RESP3 give some answers different shapes; each reader takes both shapes. A
reader raises UnexpectedReply for an answer of any other shape.

A string is bytes, and a missing string is None. Under RESP3 a hash is a map, members with scores are pairs, and a
double is a float. Under RESP2 hashes and members with scores are flat arrays, and a double is a string.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

Reply = object
"""A raw answer, or the error with which Redis refused the command. Only the readers below know its shape."""

Item = TypeVar("Item")


class UnexpectedReply(Exception):
    """Redis gave an answer of a shape that the command never returns."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(f"Redis gave an answer that its command never has: {reply!r:.100}")


def binary(reply: Reply) -> bytes:
    """Reads an answer that is a string, and returns its bytes."""
    if isinstance(reply, bytes):
        return reply
    raise UnexpectedReply(reply)


def text(reply: Reply) -> str:
    """Reads an answer that is a string of UTF-8."""
    return binary(reply).decode()


def whole(reply: Reply) -> int:
    """Reads an answer that is an integer, or a string that holds one."""
    if isinstance(reply, int | bytes):
        return int(reply)
    raise UnexpectedReply(reply)


def number(reply: Reply) -> float:
    """Reads an answer that is a double."""
    if isinstance(reply, int | float | bytes):
        return float(reply)
    raise UnexpectedReply(reply)


def flag(reply: Reply) -> bool:
    """Reads an answer that is an integer, and returns it as a bool: 0 is False."""
    return whole(reply) != 0


def maybe(read: Callable[[Reply], Item], reply: Reply) -> Item | None:
    """Reads an answer with `read`; returns None if the answer is missing."""
    return None if reply is None else read(reply)


def several(reply: Reply) -> Sequence[Reply]:
    """Reads an answer that is an array or a set, and returns its raw items."""
    if isinstance(reply, list):
        return reply
    if isinstance(reply, set | frozenset):
        return list(reply)
    raise UnexpectedReply(reply)


def wholes(reply: Reply) -> list[int]:
    """Reads an answer that is an array of integers."""
    return [whole(item) for item in several(reply)]


def flags(reply: Reply) -> list[bool]:
    """Reads an answer that is an array of integers, and returns them as bools: 0 is False."""
    return [flag(item) for item in several(reply)]


def nothing(_: Reply) -> None:
    """Ignores an answer, for commands whose answer does not matter."""


def binaries(reply: Reply) -> list[bytes]:
    """Reads an answer that is an array or a set of strings, and returns their bytes."""
    return [binary(item) for item in several(reply)]


def texts(reply: Reply) -> list[str]:
    """Reads an answer that is an array or a set of strings of UTF-8."""
    return [text(item) for item in several(reply)]


def values(reply: Reply) -> list[bytes | None]:
    """Reads an answer that has the values of fields or keys; None for each that is missing."""
    return [maybe(binary, item) for item in several(reply)]


def pairs(reply: Reply) -> list[tuple[Reply, Reply]]:
    """Reads an answer that is a map, an array of pairs, or a flat array, and returns its raw pairs."""
    if isinstance(reply, Mapping):
        return list(reply.items())
    items = several(reply)
    if items and isinstance(items[0], list):
        return [(one, other) for one, other in map(several, items)]
    return list(zip(items[::2], items[1::2], strict=True))


def raw_fields(reply: Reply) -> dict[bytes, bytes]:
    """Reads an answer that is a hash whose field names may be any bytes."""
    return {binary(name): binary(value) for name, value in pairs(reply)}


def fields(reply: Reply) -> dict[str, bytes]:
    """Reads an answer that is a hash whose field names are UTF-8."""
    return {name.decode(): value for name, value in raw_fields(reply).items()}


def scored(reply: Reply) -> list[tuple[str, float]]:
    """Reads an answer that has the members of a sorted set with their scores."""
    return [(text(member), number(score)) for member, score in pairs(reply)]
