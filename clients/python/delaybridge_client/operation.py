"""Describes one call of the bridge as a value: what to send, and how to read the answer. Nothing here does I/O."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, Generic, TypeVar

from delaybridge_client import decode
from delaybridge_client.values.page import Page

T = TypeVar("T")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the bridge. The names of `headers` are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[T]):
    """One call of the bridge's HTTP API. `path`: from the OpenAPI document. `names`: the values of the path's
    `{parameters}`.

    `query` and `body` hold Python values, such as datetimes. `read`: turns the answer into the result. `repeatable`:
    whether a second call after a lost answer does no harm. `wait`: how long the bridge may wait before it answers.
    `accepts`: the HTTP statuses of answers that `read` takes.
    """

    method: str
    path: str
    read: Callable[[Answer], T]
    names: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True
    wait: timedelta = timedelta()
    accepts: tuple[int, ...] = (200, 201, 202)


def keyed(idempotency_key: str | None) -> dict[str, str]:
    """Returns the headers of a request with this idempotency key; no headers if the key is None."""
    if idempotency_key is None:
        return {}
    escaped = idempotency_key.replace("\\", "\\\\").replace('"', '\\"')
    return {"Idempotency-Key": f'"{escaped}"'}


def next_page(operation: Operation[Page[Item]], page: Page[Item]) -> Operation[Page[Item]] | None:
    """Returns the operation for the page after `page`; None if `page` is the last one."""
    if page.next_cursor is None:
        return None
    return replace(operation, query={**operation.query, "cursor": page.next_cursor})


def reads(cls: type[T]) -> Callable[[Answer], T]:
    """Returns a function that reads an answer as a value of the dataclass."""
    return partial(_read, cls)


def reads_tagged(cls: type[T]) -> Callable[[Answer], T]:
    """Returns a function that reads an answer as a value of the dataclass, which has a field for the ETag."""
    return partial(_read_tagged, cls)


def reads_page(cls: type[Item], key: str = "items") -> Callable[[Answer], Page[Item]]:
    """Returns a function that reads an answer as a page whose objects are in the member `key`."""
    return partial(_read_page, cls, key)


def reads_list(cls: type[Item], key: str) -> Callable[[Answer], tuple[Item, ...]]:
    """Returns a function that reads an answer as the objects in the answer's member `key`."""
    return partial(_read_list, cls, key)


def reads_count(key: str) -> Callable[[Answer], int]:
    """Returns a function that reads an answer as the number in the answer's member `key`."""
    return partial(_read_count, key)


def reads_nothing(_: Answer) -> None:
    """Reads nothing out of the answer, which only repeats the request."""


def _read(cls: type[T], answer: Answer) -> T:
    return decode.read(cls, answer.json)


def _read_tagged(cls: type[T], answer: Answer) -> T:
    return decode.read(cls, {**answer.json, "etag": answer.headers.get("etag")})


def _read_page(cls: type[Item], key: str, answer: Answer) -> Page[Item]:
    members = answer.json
    items = tuple(decode.read(cls, one) for one in members[key])
    return Page(items=items, next_cursor=members["next_cursor"])


def _read_list(cls: type[Item], key: str, answer: Answer) -> tuple[Item, ...]:
    return tuple(decode.read(cls, one) for one in answer.json[key])


def _read_count(key: str, answer: Answer) -> int:
    return int(answer.json[key])
