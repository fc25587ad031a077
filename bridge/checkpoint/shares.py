"""How many copies of each parcel are not done with: its one delivery is acknowledged after the last of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class Shares:
    """Of the parcels of one channel, by delivery tag. A tag that was never parted is a lone copy's."""

    def __init__(self) -> None:
        self._left: dict[int, int] = {}

    def parted(self, tag: int, copies: int) -> None:
        self._left[tag] = copies

    def __contains__(self, tag: int) -> bool:
        """Whether it was parted, and is not done with."""
        return tag in self._left

    def done(self, tags: Iterable[int]) -> list[int]:
        """Takes note of copies that are done with, by the tags they came under; those tags of which nothing is left."""
        whole: list[int] = []
        for tag in tags:
            left = self._left.get(tag, 1) - 1
            if left:
                self._left[tag] = left
            else:
                self._left.pop(tag, None)
                whole.append(tag)
        return whole
