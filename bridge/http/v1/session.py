"""Opens and ends the session of a browser, and says what its token allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import structlog
from msgspec import Meta
from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.sessions import COOKIE, Sessions
from bridge.access.token import Scope
from bridge.http.structs import Answer
from bridge.http.v1.contract.queries import NoQuery
from bridge.http.v1.contract.results import instant_out
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import Operation, ResponseDoc

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

log = structlog.get_logger(__name__)

_PATH: Final = "/v1/session"
_KEPT: Final = "Path=/; HttpOnly; SameSite=Strict"


class SessionOut(Answer):
    token_required: Annotated[bool, Meta(description="false: the bridge requires no token, and everybody may do all")]
    token_id: str | None
    name: Annotated[str | None, Meta(description="the token's name")]
    scopes: list[Scope]
    every_topic: bool
    namespaces: Annotated[list[str], Meta(description="with `bare_topics`, the topics that the token may use")]
    bare_topics: bool
    ends_at: Annotated[ShownInstant | None, Meta(description="when the session ends; null in other answers")]


async def open_session(pools: Pools, call: ApiCall) -> Response:
    """Opens a session for a browser. The session's cookie then takes the place of the token. The console signs in with
    this call.

    The cookie is HttpOnly and SameSite=Strict, and over https also Secure. The session ends after twelve hours, with
    its token, or with `DELETE /v1/session`. Each token has at most 20 sessions; a further session ends the oldest one.
    A request with the cookie must come from a page of this bridge (403).

    200 without a cookie: the bridge requires no token, or the request has a session already."""
    call.query(NoQuery)
    caller = call.caller
    if caller.token is None or caller.session is not None:
        return JsonAnswer(_session_out(caller))
    opened = await Sessions(pools.default.sessions).open(caller.token)
    log.info("session.opened", token=caller.who)
    cookie = f"{COOKIE}={opened.cookie}; {_KEPT}{_secure(call)}"
    return JsonAnswer(_session_out(caller, ends_ms=opened.ends_ms), 201, [(b"set-cookie", cookie.encode())])


async def look_at_session(pools: Pools, call: ApiCall) -> Response:
    """Returns what the request's token or session allows."""
    call.query(NoQuery)
    return JsonAnswer(_session_out(call.caller))


async def close_session(pools: Pools, call: ApiCall) -> Response:
    """Ends the session of the request's cookie, and removes the cookie. A request with a token ends no session."""
    call.query(NoQuery)
    if call.caller.session is not None:
        await Sessions(pools.default.sessions).close(call.caller.session)
        log.info("session.closed", token=call.caller.who)
    cookie = f"{COOKIE}=; Max-Age=0; {_KEPT}{_secure(call)}"
    return JsonAnswer(_session_out(call.caller), headers=[(b"set-cookie", cookie.encode())])


def _secure(call: ApiCall) -> str:
    # A proxy that ends TLS passes on the browser's Origin.
    origin = next((value for name, value in call.scope["headers"] if name == b"origin"), b"")
    return "; Secure" if call.scope["scheme"] == "https" or origin.startswith(b"https:") else ""


def _session_out(caller: Caller, *, ends_ms: int | None = None) -> SessionOut:
    token = caller.token
    return SessionOut(
        token_required=token is not None,
        token_id=None if token is None else token.id,
        name=caller.name,
        scopes=list(Scope) if token is None else list(token.scopes),
        every_topic=token is None or token.every_topic,
        namespaces=[] if token is None else list(token.namespaces),
        bare_topics=token is not None and token.bare_topics,
        ends_at=instant_out(ends_ms),
    )


_LOOK: Final = Need(scope=Scope.LOOK)

OPERATIONS = (
    Operation(
        name="open_session",
        summary="Sign a browser in",
        group="operators",
        method="POST",
        path=_PATH,
        run=open_session,
        need=_LOOK,
        answers={
            200: ResponseDoc(description="No session was opened", model=SessionOut, example=examples.NO_SESSION),
            201: ResponseDoc(
                description="The session",
                model=SessionOut,
                example=examples.SESSION,
                headers={"Set-Cookie": "The session's cookie"},
            ),
        },
    ),
    Operation(
        name="look_at_session",
        summary="See what the token allows",
        group="operators",
        method="GET",
        path=_PATH,
        run=look_at_session,
        need=_LOOK,
        answers={
            200: ResponseDoc(
                description="What the token allows", model=SessionOut, example=examples.SESSION | {"ends_at": None}
            )
        },
    ),
    Operation(
        name="close_session",
        summary="Sign a browser out",
        group="operators",
        method="DELETE",
        path=_PATH,
        run=close_session,
        need=_LOOK,
        answers={
            200: ResponseDoc(
                description="The session has ended",
                model=SessionOut,
                example=examples.SESSION | {"ends_at": None},
                headers={"Set-Cookie": "Removes the cookie"},
            )
        },
    ),
)
