"""Writes errors as `application/problem+json` (RFC 9457). One table maps each error to its problem type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType
from starlette.requests import Request
from starlette.responses import Response

from bridge.access import errors as access
from bridge.access.token import masked
from bridge.http import exact_json, request_id
from bridge.http.errors import BrokenJSON, EncodedBody, TooLarge, TooManyValues
from bridge.http.structs import Answer
from bridge.model import errors
from bridge.model.errors import BridgeError, FieldError

if TYPE_CHECKING:
    from bridge.service.health.health import Health

_WITH_PAUSE = (errors.Unavailable, errors.RequestUnderWay, access.TooManyRequests)
MEDIA_TYPE = "application/problem+json"
_SHOWN_CHARACTERS = 200  # of a value that an answer repeats


@dataclass(frozen=True, slots=True)
class ProblemType:
    """A problem type of RFC 9457: its HTTP status, the last part of its URI, and its title."""

    status: int
    slug: str
    title: str

    @property
    def uri(self) -> str:
        return f"urn:problem-type:delaybridge:{self.slug}"


INTERNAL = ProblemType(500, "internal", "The bridge failed")
NO_SUCH_PATH = ProblemType(404, "no-such-path", "No such path")
NO_SUCH_METHOD = ProblemType(405, "no-such-method", "The path does not take this method")
INVALID = ProblemType(422, "invalid-request", "The request is not valid")
NOT_READY = ProblemType(503, "not-ready", "The bridge is not ready")

KINDS: Mapping[type[BridgeError], ProblemType] = {
    access.NoToken: ProblemType(401, "no-token", "A token is required"),
    access.InvalidToken: ProblemType(401, "invalid-token", "The token is not valid"),
    access.ForeignSite: ProblemType(403, "foreign-site", "A page of another site may not use this bridge"),
    access.NotAllowed: ProblemType(403, "insufficient-scope", "The token does not allow this"),
    access.TooManyTopics: ProblemType(403, "too-many-topics", "The token may make no more topics"),
    access.TooManyRequests: ProblemType(429, "too-many-requests", "Too many requests for this token"),
    BrokenJSON: ProblemType(400, "broken-json", "The body is not valid JSON"),
    EncodedBody: ProblemType(415, "encoded-body", "The body of the request has a content coding"),
    errors.NotFound: ProblemType(404, "not-found", "Not found"),
    errors.Conflict: ProblemType(409, "conflict", "The state of the message or topic forbids this"),
    errors.BodyNotKept: ProblemType(409, "body-not-kept", "The body of the message was not kept in Redis"),
    errors.LeaseEnded: ProblemType(409, "lease-ended", "The lease has ended"),
    errors.RequestUnderWay: ProblemType(409, "request-under-way", "A request with this idempotency key is under way"),
    errors.NotAsSeen: ProblemType(412, "not-as-seen", "The message has changed since"),
    errors.TopicNotEmpty: ProblemType(409, "topic-not-empty", "The topic is not empty"),
    TooLarge: ProblemType(413, "too-large", "The request or the body of a message is too large"),
    TooManyValues: ProblemType(413, "too-many-values", "The request has too many values"),
    errors.InvalidRequest: INVALID,
    errors.Unavailable: ProblemType(503, "unavailable", "Temporarily unavailable: nothing was promised"),
    BridgeError: INTERNAL,
}


class ProblemField(Answer):
    field: str
    value: Any
    limit: Any
    message: str


class FindingOut(Answer):
    severity: Literal["error", "warning"]
    says: str
    remedy: Annotated[str, Meta(description="what an operator can do; empty if `says` says it")]


def findings_out(health: Health) -> list[FindingOut]:
    return [FindingOut(severity=one.severity, says=one.says, remedy=one.remedy) for one in health.findings]


class ProblemOut(Answer):
    """A problem as RFC 9457 defines it. `errors`: one entry for each field that is wrong.

    `state`: the state of the message, with 409 and 412. `retry_after_s`: seconds to wait before the next try, with 429
    and 503, and with 409 if a request with the same idempotency key is under way. `scope`: the scope that the token
    lacks, with 403. `parts`, `policies` and `findings`: the members of `/health/ready`, with 503.
    """

    type: str
    title: str
    status: int
    detail: str
    errors: list[ProblemField]
    request_id: str
    state: str | UnsetType = UNSET
    retry_after_s: int | UnsetType = UNSET
    scope: str | UnsetType = UNSET
    parts: Mapping[str, str] | UnsetType = UNSET
    policies: str | UnsetType = UNSET
    findings: list[FindingOut] | UnsetType = UNSET


def problem(error: BridgeError, identity: str) -> ProblemOut:
    """Returns the problem document for the error. `identity`: the request id."""
    problem_type = next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)
    return problem_of(
        problem_type,
        str(error),
        identity,
        getattr(error, "errors", ()),
        state=error.state if isinstance(error, errors.Conflict) and error.state is not None else UNSET,
        scope=error.scope if isinstance(error, access.NotAllowed) else UNSET,
        retry_after_s=error.retry_after_s if isinstance(error, _WITH_PAUSE) else UNSET,
    )


def internal(identity: str) -> ProblemOut:
    """Returns the problem for an error in the bridge itself. `identity`: the request id."""
    detail = "an unexpected error in the bridge: the line of its log with this request_id has the traceback"
    return problem_of(INTERNAL, detail, identity)


def answer(request: Request, error: BridgeError) -> Response:
    """Returns the response to a `BridgeError`, as a problem document."""
    headers = error.headers if isinstance(error, access.Refused) else None
    if isinstance(error, errors.Unavailable | errors.RequestUnderWay):
        headers = {"Retry-After": str(error.retry_after_s)}
    elif isinstance(error, EncodedBody):
        headers = {"Accept-Encoding": "identity"}
    return _response(problem(error, request_id.of(request.scope)), headers)


def document(problem_type: ProblemType, detail: str, identity: str) -> bytes:
    """Returns the problem as JSON, for a request that is refused before it is parsed. `identity`: the request id."""
    return exact_json.dumps(problem_of(problem_type, detail, identity))


def answer_of(
    request: Request,
    problem_type: ProblemType,
    detail: str,
    *,
    headers: Mapping[str, str] | None = None,
    **members: Any,
) -> Response:
    """Returns a response with a problem for which there is no subclass of `BridgeError`. `headers`: further headers of
    the response. `members`: further members of the problem."""
    return _response(problem_of(problem_type, detail, request_id.of(request.scope), **members), headers)


def unforeseen(request: Request) -> Response:
    """Returns the response to an error in the bridge itself: 500, with a problem document."""
    return _response(internal(request_id.of(request.scope)), None)


def problem_of(
    problem_type: ProblemType, detail: str, identity: str, field_errors: Iterable[FieldError] = (), **members: Any
) -> ProblemOut:
    """Returns a problem document. `identity`: the request id. `members`: further members of the document."""
    return ProblemOut(
        type=problem_type.uri,
        title=problem_type.title,
        status=problem_type.status,
        detail=detail,
        errors=[
            ProblemField(field=error.field, value=shown(error.value), limit=error.limit, message=error.message)
            for error in field_errors
        ],
        request_id=identity,
        **members,
    )


def shown(value: Any) -> Any:
    """Shortens a value from the request, so that an error answer can show it. A text or JSON of more than 200
    characters is cut, and ends with `…`. A shorter value is returned unchanged."""
    text = value if isinstance(value, str) else exact_json.dumps(value).decode()
    return text[:_SHOWN_CHARACTERS] + "…" if len(text) > _SHOWN_CHARACTERS else value


def _response(problem: ProblemOut, headers: Mapping[str, str] | None) -> Response:
    # Answers repeat values, and a client may have put its token into a value by mistake, such as into the query.
    return Response(masked(exact_json.dumps(problem)), problem.status, headers, MEDIA_TYPE)
