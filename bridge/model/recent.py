"""Keeps the latest entries of a mapping, up to a maximum number, for state whose keys clients choose."""

from __future__ import annotations

from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """A mapping of at most `most` keys. A further key replaces the key that was noted the longest ago."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[Key, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> Value | None:
        return self._values.get(key)

    def note(self, key: Key, value: Value) -> None:
        """Sets the key's value, and makes the key the latest one."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self._most:
            del self._values[next(iter(self._values))]

    def forget(self, key: Key) -> None:
        self._values.pop(key, None)
