"""Counts the unfinished copies of each bundle. A bundle's one delivery is acknowledged after its last copy is finished.
Pure."""

from __future__ import annotations

from collections.abc import Iterable


class BundleRefs:
    """The opened bundles of one channel, by delivery tag. A tag that was not given to `opened` belongs to a copy
    outside bundles."""

    def __init__(self, *, most: int) -> None:
        """`most`: the most copies that are read out of bundles and unfinished at any time."""
        self._most = most
        self._unfinished: dict[int, int] = {}
        self.copies = 0  # copies of all bundles that are read and unfinished

    def has_room(self, copies: int) -> bool:
        """Whether `copies` more copies may be read without exceeding the limit of unfinished copies. If no copy is
        unfinished, a bundle of any size may be read."""
        return not self.copies or self.copies + copies <= self._most

    def opened(self, tag: int, copies: int) -> None:
        """Starts to count the unfinished copies of an opened bundle. `tag`: its delivery tag. `copies`: how many it
        holds."""
        self._unfinished[tag] = copies

    def read(self, copies: int) -> None:
        """Adds to the number of unfinished copies of all bundles, which `has_room` limits. `copies`: how many were just
        read."""
        self.copies += copies

    def __contains__(self, tag: int) -> bool:
        """Whether the tag belongs to an opened bundle with unfinished copies."""
        return tag in self._unfinished

    def done(self, tags: Iterable[int]) -> list[int]:
        """Counts copies as finished. `tags`: for each copy, the delivery tag with which it came. That is the tag of its
        bundle for a copy out of a bundle. Returns the tags that can be acknowledged."""
        finished: list[int] = []
        for tag in tags:
            if tag in self._unfinished:
                self.copies -= 1
                if self._finish(tag):
                    finished.append(tag)
            else:
                finished.append(tag)
        return finished

    def parked(self, tags: Iterable[int]) -> list[int]:
        """Counts copies as finished that went back into the wheel without being read. `tags`: for each copy, the
        delivery tag of its bundle. Returns the tags that can be acknowledged."""
        return [tag for tag in tags if self._finish(tag)]

    def _finish(self, tag: int) -> bool:
        """Counts one finished copy of a bundle. Returns whether it was the bundle's last unfinished copy."""
        self._unfinished[tag] -= 1
        if self._unfinished[tag]:
            return False
        del self._unfinished[tag]
        return True
