"""Searches for messages over topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import SearchQuery
from bridge.http.v1.contract.results import PageOut, page_out
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc
from bridge.service.pools.search import Search

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


async def search(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of the messages that match, by due time. All parameters must match.

    The search reads a bounded number of messages for a page. So a page may have fewer items than `limit`, or none,
    before the last page. Give `next_cursor` as `cursor` for the next page; it is null only on the last page. With a
    token, the search covers only topics that the token may use. A label is found from the send on, as long as the
    bridge keeps the message.

    404: `topic` names a topic, and there is none of this name."""
    query = call.query(SearchQuery)
    wanted = query.filter()
    if wanted.one_topic is not None:
        call.caller.check(wanted.one_topic)
    page = await Search(pools).messages(
        wanted, sees=call.caller.sees, order=query.wanted_order, limit=query.limit, cursor=query.cursor
    )
    return JsonAnswer(page_out(page))


OPERATIONS = (
    Operation(
        name="search",
        summary="Search for messages",
        group="messages",
        method="GET",
        path="/v1/messages",
        run=search,
        need=Need(scope=Scope.LOOK),
        query=SearchQuery,
        answers={
            200: ResponseDoc(
                description="A page of messages",
                model=PageOut,
                example={"items": [examples.MESSAGE], "next_cursor": examples.PLACE},
            )
        },
        problems=(404, 422, 503),
    ),
)
