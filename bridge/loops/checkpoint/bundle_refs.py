"""How many copies of each bundle are not done with: its one delivery is acknowledged after the last of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class BundleRefs:
    """Of the bundles of one channel, by delivery tag. A tag that was never parted is a lone copy's."""

    def __init__(self, *, most: int) -> None:
        """`most`: copies that are to be parted and not done with at any time."""
        self._most = most
        self._left: dict[int, int] = {}
        self.copies = 0  # parted and not done with, of all bundles

    def has_room(self, copies: int) -> bool:
        """Whether a bundle of so many is to be parted now; where nothing else is parted, any is."""
        return not self.copies or self.copies + copies <= self._most

    def parted(self, tag: int, copies: int) -> None:
        self._left[tag] = copies
        self.copies += copies

    def __contains__(self, tag: int) -> bool:
        """Whether it was parted, and is not done with."""
        return tag in self._left

    def done(self, tags: Iterable[int]) -> list[int]:
        """Takes note of copies that are done with, by the tags they came under; those tags of which nothing is left."""
        whole: list[int] = []
        for tag in tags:
            if (left := self._left.get(tag)) is None:
                whole.append(tag)
                continue
            self.copies -= 1
            if left > 1:
                self._left[tag] = left - 1
            else:
                del self._left[tag]
                whole.append(tag)
        return whole
