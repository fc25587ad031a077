"""Defines a page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a list. `next_cursor`: the cursor of the next page; None: this is the last page. Any page may be empty.

    `client.every(operations.list_messages("orders"))` goes through all pages.
    """

    items: tuple[Item, ...]
    next_cursor: str | None
