"""Counts the unfinished copies of each bundle: its one delivery is acknowledged after the last of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class BundleRefs:
    """The unpacked bundles of one channel, by delivery tag. A tag that was never noted belongs to a single copy."""

    def __init__(self, *, most: int) -> None:
        """`most`: how many unpacked copies may be unfinished at any time."""
        self._most = most
        self._unfinished: dict[int, int] = {}
        self.copies = 0  # unfinished ones of all bundles

    def has_room(self, copies: int) -> bool:
        """Returns whether a bundle of `copies` copies may be unpacked now. The first bundle always may."""
        return not self.copies or self.copies + copies <= self._most

    def unpacked(self, tag: int, copies: int) -> None:
        """Notes a bundle that was unpacked."""
        self._unfinished[tag] = copies
        self.copies += copies

    def __contains__(self, tag: int) -> bool:
        """Returns whether the tag belongs to an unpacked bundle with unfinished copies."""
        return tag in self._unfinished

    def done(self, tags: Iterable[int]) -> list[int]:
        """Notes finished copies, by their tags. Returns the tags that can be acknowledged."""
        finished: list[int] = []
        for tag in tags:
            if (unfinished := self._unfinished.get(tag)) is None:
                finished.append(tag)
                continue
            self.copies -= 1
            if unfinished > 1:
                self._unfinished[tag] = unfinished - 1
            else:
                del self._unfinished[tag]
                finished.append(tag)
        return finished
