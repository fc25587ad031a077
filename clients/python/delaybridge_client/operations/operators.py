"""Describes the HTTP calls of operators as `Operation` values, without I/O: overview, slots, actions and sessions."""

from __future__ import annotations

from typing import Final

from delaybridge_client.encode import given
from delaybridge_client.operation import Operation, reads, reads_page
from delaybridge_client.values.operators import Action, Overview, Session, Slots
from delaybridge_client.values.page import Page

_SESSION: Final = "/v1/session"


def overview() -> Operation[Overview]:
    """Returns the figures of all topics together."""
    return Operation(method="GET", path="/v1/overview", read=reads(Overview))


def list_slots() -> Operation[Slots]:
    """Returns the slots of the wheel, with the numbers of waiting messages."""
    return Operation(method="GET", path="/v1/slots", read=reads(Slots))


def list_actions(
    *, topic: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Operation[Page[Action]]:
    """Returns a page of operators' actions, the latest first."""
    return Operation(
        method="GET",
        path="/v1/actions",
        query=given(topic=topic, limit=limit, cursor=cursor),
        read=reads_page(Action),
    )


def look_at_session() -> Operation[Session]:
    """Returns the rights of the client's token."""
    return Operation(method="GET", path=_SESSION, read=reads(Session))


def open_session() -> Operation[Session]:
    """Opens a browser's session. The client then also has the session's cookie."""
    return Operation(method="POST", path=_SESSION, read=reads(Session), repeatable=False)


def close_session() -> Operation[Session]:
    """Ends the session of the client's cookie."""
    return Operation(method="DELETE", path=_SESSION, read=reads(Session), repeatable=False)
