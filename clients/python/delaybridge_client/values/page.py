"""Defines a page of a list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[Item]):
    """Part of a list. `next_cursor`: of the page after it; None if this is the last. A page may be empty before that.

    `client.every(operations.list_messages("orders"))` goes through all pages.
    """

    items: tuple[Item, ...]
    next_cursor: str | None
