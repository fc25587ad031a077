"""Defines the query parameters. An unknown parameter is refused."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import unquote_plus

from msgspec import Meta

from bridge.http.structs import Request, default
from bridge.http.v1.contract.filters import IdPrefix, ReasonGlob, States, TopicGlob, WholeReason
from bridge.http.v1.contract.labels import QueriedLabels
from bridge.http.v1.contract.scalars import Count, QueryInstant, Topic, listed
from bridge.model.filter import Filter, Order


def read(query: bytes) -> dict[str, Any]:
    """Parses a query string. Returns the values of the parameters by name: a text, or a list of texts for a repeated
    one.

    A plus sign becomes a space. `QueryInstant` reads a space before a UTC offset as a plus sign.
    """
    params: dict[str, Any] = {}
    for part in query.decode("latin-1").split("&") if query else ():
        name, _, value = (unquote_plus(piece) for piece in part.partition("="))
        params[name] = value if name not in params else [*listed(params[name]), value]
    return params


TopicPrefix = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_./-]{0,201}$")]
Flag = Literal["true", "false"]
QueryStates = Annotated[
    States, Meta(description="Repeat the parameter or separate states by commas. Without it: all states")
]


class NoQuery(Request):
    """No parameters."""


class PageQuery(Request):
    limit: Annotated[Count, Meta(description="The most items of the page")] = default(100)
    cursor: Annotated[str | None, Meta(description="`next_cursor` of the page before; without it, the first page")] = (
        None
    )


class ActionsQuery(PageQuery):
    topic: Annotated[Topic | None, Meta(description="Only actions on this topic, which may be gone")] = None


class ListQuery(PageQuery):
    state: QueryStates = default(())
    due_after: QueryInstant | None = None
    due_before: QueryInstant | None = None


class SearchQuery(ListQuery):
    topic: Annotated[
        TopicGlob | None,
        Meta(description="A topic, or a pattern in which `*` is any text: `shop/*`. Without it: all topics"),
    ] = None
    id_prefix: Annotated[IdPrefix | None, Meta(description="How the id begins")] = None
    label: Annotated[
        QueriedLabels,
        Meta(description="`customer:42`. Repeat the parameter for up to four labels, which all must match"),
    ] = default({})
    reason: Annotated[
        WholeReason | None,
        Meta(description="The whole reason of expired and dead messages. Other states must be asked for"),
    ] = None
    reason_pattern: Annotated[
        ReasonGlob | None, Meta(description="As `reason`, but a pattern in which `*` is any text: `card *`")
    ] = None
    order: Annotated[
        Literal["asc", "desc"], Meta(description="By due time: `asc` from the earliest on, `desc` from the latest on")
    ] = "asc"
    cursor: Annotated[
        str | None,
        Meta(
            description="`next_cursor` of the page before; without it, the first page",
            extra_json_schema={"example": "MTc5NjExNTYwMDAwMCBvcmRlcnMgby0xMDAx"},
        ),
    ] = None

    def filter(self) -> Filter:
        """Returns the parameters that choose messages, as a `Filter`."""
        return Filter(
            topic=self.topic,
            states=self.state,
            due_after_ms=self.due_after,
            due_before_ms=self.due_before,
            id_prefix=self.id_prefix or "",
            labels=self.label,
            reason=self.reason,
            reason_pattern=self.reason_pattern,
        )

    @property
    def wanted_order(self) -> Order:
        return Order(self.order)


class TopicsQuery(Request):
    prefix: Annotated[TopicPrefix, Meta(description="How the names begin, such as `shop/` for a namespace")] = ""
    limit: Annotated[Count, Meta(description="The most topics of the page")] = default(1_000)
    cursor: Annotated[
        str | None,
        Meta(
            description="`next_cursor` of the page before; without it, the first page",
            extra_json_schema={"example": "b3JkZXJz"},
        ),
    ] = None


class DeleteQuery(Request):
    release: Annotated[
        Flag, Meta(description="`true`: also delete the stored body and headers; only a tombstone is left")
    ] = "false"


class DropQuery(Request):
    max: Annotated[Count, Meta(description="The most dead letters to delete")] = default(100)


class RemoveQuery(Request):
    force: Annotated[Flag, Meta(description="`true`: also delete the topic's messages")] = "false"
