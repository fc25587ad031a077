"""Writes the OpenAPI document: every operation's parameters, request and answers, with an example of each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from inspect import cleandoc
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from msgspec import Struct
from msgspec.json import schema_components

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http import problems
from bridge.http.problems import ProblemOut
from bridge.http.reading import read
from bridge.http.v1.document import examples
from bridge.http.v1.operation import idempotency
from bridge.model.errors import InvalidRequest
from bridge.model.message import ID_PATTERN, TOPIC_PATTERN
from bridge.model.schedule_names import SCHEDULE_PATTERN
from bridge.model.ulids import ULID_PATTERN

if TYPE_CHECKING:
    from bridge.http.v1.operation.operation import HeaderDoc, Operation, ResponseDoc

_REF = "#/components/schemas/{name}"
_PART = "^[A-Za-z0-9_.-]{1,100}$"
# Relative to the document's own address, so it is right behind proxies that serve the bridge below a path.
_SERVER: Final = {"url": ".", "description": "The bridge that served this document"}
_CONTACT: Final = {"name": "The maintainers of delaybridge"}
_LICENSE: Final = {"name": "Apache License 2.0", "identifier": "Apache-2.0"}
_PATH_PARAMETERS = {
    "topic": ({"type": "string", "pattern": TOPIC_PATTERN}, "The topic: `name`, or `namespace%2Fname`", "orders"),
    "namespace": ({"type": "string", "pattern": _PART}, "The first part of the topic's name", "shop"),
    "name": ({"type": "string", "pattern": _PART}, "The second part of the topic's name", "orders"),
    "id": ({"type": "string", "pattern": ID_PATTERN}, "The message's id", "o-1001"),
    "schedule": ({"type": "string", "pattern": SCHEDULE_PATTERN}, "The schedule's name", "nightly-report"),
    "operation_id": ({"type": "string", "pattern": ULID_PATTERN}, "The operation's id", examples.BULK_OPERATION["id"]),
}
_TOKEN = "token"
_REQUEST_ID = {
    "description": "The request's `X-Request-ID`, or a new id",
    "schema": {"type": "string"},
}


def document(app: FastAPI, operations: Sequence[Operation], *, tokens: bool) -> dict[str, Any]:
    """Returns the OpenAPI document of the application with these operations. `tokens`: whether the API requires a
    token."""
    whole = get_openapi(
        title=app.title,
        version=app.version,
        description=app.description,
        routes=app.routes,
        tags=app.openapi_tags,
        servers=[dict(_SERVER)],
        contact=dict(_CONTACT),
        license_info=dict(_LICENSE),
    )
    # Added after FastAPI has written the document: it drops null values, also from examples.
    for operation in operations:
        described = whole["paths"][operation.path][operation.method.lower()]
        described.update(_described(operation))
        if tokens and operation.need is not None:
            described["security"] = [{_TOKEN: [operation.need.scope]}]
            described["description"] += f"\n\n{_needed(operation.need)}"
            described["responses"] |= {str(status): _problem(status) for status in _refusals(operation.need)}
    models: set[type[Struct]] = {ProblemOut}
    for operation in operations:
        models.update(model for model in (operation.takes, *_answered(operation)) if model is not None)
    components = whole.setdefault("components", {})
    components.setdefault("schemas", {}).update(_schemas(models))
    if tokens:
        description = "A token as `delaybridge token create` prints it"
        components["securitySchemes"] = {_TOKEN: {"type": "http", "scheme": "bearer", "description": description}}
    return whole


def _described(operation: Operation) -> dict[str, Any]:
    """Returns the operation's parameters, request and answers as an OpenAPI Operation Object."""
    statuses = {*operation.problems, 500, *((409,) if operation.is_keyed else ()), *((415,) if operation.takes else ())}
    description: dict[str, Any] = {
        "responses": {str(status): _answer(answer) for status, answer in operation.answers.items()}
        | {str(status): _problem(status) for status in sorted(statuses)}
    }
    parameters = [
        *_path_parameters(operation.path),
        *_query_parameters(operation.query),
        *_header_parameters((*operation.headers, idempotency.DOC) if operation.is_keyed else operation.headers),
    ]
    if parameters:
        description["parameters"] = parameters
    if operation.takes is not None:
        request_examples = {name: {"summary": name, "value": value} for name, value in operation.examples.items()}
        content = {"application/json": {"schema": _ref(operation.takes), "examples": request_examples}}
        description["requestBody"] = {"content": content, "required": _needs_body(operation.takes)}
    return description


def _schemas(models: Iterable[type[Struct]]) -> dict[str, Any]:
    """Returns the schemas of the structs, and of all structs that their fields refer to, by name."""
    _, schemas = schema_components(models, schema_hook=_scalar_schema, ref_template=_REF)
    return {name: _tidied(schema) for name, schema in sorted(schemas.items())}


def _tidied(schema: Any) -> Any:
    """Returns the schema as the document shows it. Adds the type of string enums, which msgspec leaves out. Removes the
    indent of docstrings, and an empty `required`."""
    if isinstance(schema, list):
        return [_tidied(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    tidied = {key: _tidied(part) for key, part in schema.items()}
    if isinstance(tidied.get("description"), str):
        tidied["description"] = cleandoc(tidied["description"])
    if isinstance(names := tidied.get("enum"), list) and all(isinstance(name, str) for name in names):
        tidied["type"] = "string"
    if tidied.get("required") == []:
        del tidied["required"]
    return tidied


def _scalar_schema(kind: Any) -> dict[str, Any]:
    schema: dict[str, Any] = kind.schema()
    return schema


def _answered(operation: Operation) -> Iterable[type[Struct] | None]:
    return (answer.model for answer in operation.answers.values())


def _answer(answer: ResponseDoc) -> dict[str, Any]:
    schema = _ref(answer.model) if answer.model else {"type": "string"}
    headers = {
        name: {"description": description, "schema": {"type": "string"}} for name, description in answer.headers.items()
    }
    content = {answer.media_type: {"schema": schema, "examples": {"answer": {"value": answer.example}}}}
    return {"description": answer.description, "headers": {"X-Request-ID": _REQUEST_ID, **headers}, "content": content}


def _problem(status: int) -> dict[str, Any]:
    shown = examples.PROBLEMS[status]
    headers: dict[str, Any] = {"X-Request-ID": _REQUEST_ID}
    if status in {429, 503}:
        headers["Retry-After"] = {"description": "Seconds to wait before the next try", "schema": {"type": "integer"}}
    if status in {401, 403}:
        headers["WWW-Authenticate"] = {"description": "As RFC 6750 defines it", "schema": {"type": "string"}}
    content = {problems.MEDIA_TYPE: {"schema": _ref(ProblemOut), "examples": {"problem": {"value": shown}}}}
    return {"description": shown["title"], "headers": headers, "content": content}


def _needed(need: Need) -> str:
    scope = "any scope" if need.scope is Scope.LOOK else f"the scope `{need.scope}`"
    return f"Requires a token with {scope}{' for every topic' if need.every_topic else ''}."


def _refusals(need: Need) -> tuple[int, ...]:
    return (401, 403, 429, 503) if need.rated else (401, 403, 503)


def _path_parameters(path: str) -> Iterable[dict[str, Any]]:
    for name in re.findall(r"\{(\w+)\}", path):
        schema, description, example = _PATH_PARAMETERS[name]
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": schema,
            "description": description,
            "example": example,
        }


def _query_parameters(query: type[Struct] | None) -> Iterable[dict[str, Any]]:
    for name, schema in _schemas([query])[query.__name__]["properties"].items() if query else ():
        yield {"name": name, "in": "query", "schema": schema, "example": schema.pop("example", examples.QUERY[name])}


def _header_parameters(headers: Iterable[HeaderDoc]) -> Iterable[dict[str, Any]]:
    for header in headers:
        yield {
            "name": header.name,
            "in": "header",
            "required": False,
            "schema": {"type": "string", "minLength": 1, "maxLength": header.longest},
            "description": header.description,
            "example": header.example,
        }


def _needs_body(model: type[Struct]) -> bool:
    """Whether the model refuses an empty body."""
    try:
        read(model, b"{}")
    except InvalidRequest:
        return True
    return False


def _ref(model: type[Struct]) -> dict[str, str]:
    return {"$ref": _REF.format(name=model.__name__)}
