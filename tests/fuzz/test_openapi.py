"""Tests that each request gets an answer that the OpenAPI document describes, even if the request breaks the
document's rules."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from schemathesis.core.failures import Failure
from schemathesis.engine import events, from_schema

from bridge.http.v1.contract.scalars import ID_FORM, SCHEDULE_FORM
from bridge.model.durations import parse_duration_ms
from bridge.model.message import valid_topic
from tests.examples import TIMES
from tests.integration.own import Own

TOPICS = ("fuzz-a", "fuzz-b", "fuzz-c")  # a new topic is two new queues
LONGEST_WAIT_MS = 20
OFF = {
    "use_after_free",  # a deleted message can be looked up: that is its tombstone
    "allow_header_conformance",  # `…/messages/batch` is also the path of a message with the id `batch`
}
SAME_BY_NAMESPACE = {"include-path-regex": "^/v1/namespaces/", "phases": {"coverage": {"enabled": False}}}
"""The calls of a topic in a namespace are those of any topic. So one of the two gets requests with each wrong value."""

# A JSON schema can't express these rules. The bridge must accept every other request that the document allows.
BEYOND_SCHEMAS = re.compile(
    r"is not a (receipt|cursor).*|is the receipt of another message|give exactly one of .*|give .*, not both"
    r"|must be at (least|most) .* \([0-9]+ ms\)|must be from 0 to .* Unix milliseconds .*|must have an offset.*"
    r"|must be Unix milliseconds: .*|must not be more than a day past, .*|must be neither \".\" nor \"..\": .*"
    r"|must be an RFC 3339 time .*|must be base64 .*|names and values have .* bytes.*|the name .* is reserved.*"
    r"|the value of .* must be a string, a 64-bit number, true or false|is neither JSON nor UTF-8 text.*"
    r"|is .*beyond the longest delay of 999 days"
    r"|must be a string, because the content type is text|nests more than 250 levels deep.*"
    r"|is required where nothing else is given.*|.* can't take .* messages; it takes .*|is that of expired and dead .*"
    r"|asks for two values of .*"
    r"|must have 5 fields.*|has a wrong .*|never ticks from now on|must be an IANA time zone.*"
    r"|the end must not be before the start|must not be longer than `every`|is for `(cron|every)`.*"
    r"|must be one of the topics of this pull"
    r"|must be in the past|must not be before `from`|takes .* bytes with its headers.*"
    # These depend on the message that the id has.
    r"|is another than that of the message .*|the message has had .* deliveries.*"
    r"|give at least one field to change|give the id that if_exists is about|give max_wait with if_exists extend.*"
    r"|must be at least the (delay|[0-9]+ ms until deliver_at)|was given with another request body before.*"
    r"|must be one text of 1-255 .*|must be the ETag of an answer.*"
    r"|must have an IPv6 address between its brackets.*|must be https \(.*|leads to .*"
    # The schema of a path's parameter is checked against the percent-encoded form.
    rf"|{re.escape(ID_FORM)}|{re.escape(SCHEDULE_FORM)}",
    re.DOTALL,
)


def config(seed: int, examples: int, *, every_path: bool) -> schemathesis.Config:
    return schemathesis.Config.from_dict(
        {
            "seed": seed,
            "request-timeout": 60,
            "continue-on-failure": True,
            "generation": {"max-examples": examples},
            "parameters": {"path.topic": TOPICS[0], "path.namespace": "fuzz", "path.name": "n"},
            "checks": {name: {"enabled": False} for name in OFF},
            "operations": [] if every_path else [SAME_BY_NAMESPACE],
        }
    )


@schemathesis.hook
def before_call(context: schemathesis.HookContext, case: schemathesis.Case[Any], kwargs: dict[str, Any]) -> None:
    """Replaces topics by one of a few, and long waits by a short one. Valid requests stay valid, and invalid ones
    invalid."""
    body = case.body
    if isinstance(body, dict):
        if isinstance(topics := body.get("topics"), list):
            body["topics"] = [_one_of_few(topic) for topic in topics]
            for one in [*_objects(body.get("ack")), *_objects(body.get("nack"))]:
                one["topic"] = _one_of_few(one.get("topic"))
        if isinstance(body.get("message"), dict):
            body["topic"] = _one_of_few(body.get("topic"))
        if _is_long(body.get("wait")):
            body["wait"] = LONGEST_WAIT_MS


def _one_of_few(topic: Any) -> Any:
    return TOPICS[len(topic) % len(TOPICS)] if isinstance(topic, str) and valid_topic(topic) else topic


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict) and "topic" in one] if isinstance(value, list) else []


def _is_long(wait: Any) -> bool:
    try:
        return LONGEST_WAIT_MS < parse_duration_ms(wait) <= 60_000
    except ValueError:
        return False


def only_what_a_schema_says(
    context: schemathesis.HookContext, failure: Failure, case: schemathesis.Case[Any], response: schemathesis.Response
) -> bool:
    if type(failure).__name__ != "RejectedPositiveData" or response.status_code not in (412, 422):
        return True
    if response.status_code == 412:
        return False  # no schema knows the ETag of a message
    # A schema can't say which addresses may be called, nor what a patch has to add to a policy.
    beyond = {"url"} | ({"backoff.first", "backoff.max"} if case.method == "PATCH" else set())
    errors = response.json()["errors"]
    return not all(one["field"] in beyond or BEYOND_SCHEMAS.fullmatch(one["message"]) for one in errors)


def failures(schema: schemathesis.BaseSchema) -> Iterator[str]:
    """Yields each failure with a command that repeats it, and each error of the fuzzer itself."""
    for event in from_schema(schema).execute():
        if isinstance(event, events.NonFatalError | events.FatalError):
            yield repr(event)
        if isinstance(event, events.ScenarioFinished | events.FuzzScenarioFinished):
            for checks in event.recorder.checks.values():
                for check in checks:
                    if check.failure_info is not None:
                        failed = check.failure_info
                        yield f"{check.name}: {failed.failure.message}\n{failed.code_sample}"


@pytest.mark.timeout(180 + 120 * TIMES)
async def test_every_answer_is_in_the_document(fuzzed: Own, seed: int, pytestconfig: pytest.Config) -> None:
    settings = config(seed, 2 * TIMES, every_path=TIMES > 1 or pytestconfig.getoption("--nightly"))
    schema = schemathesis.openapi.from_url(f"{fuzzed.bridge.url}/openapi.json", config=settings)
    schema.hook("filter_failure")(only_what_a_schema_says)

    found = await asyncio.to_thread(lambda: list(failures(schema)))

    assert not found, f"seed {seed}:\n" + "\n\n".join(found)
