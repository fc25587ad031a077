"""Tests what a token allows and which headers are read as a token."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from bridge.access.access import Undecided, asks_for_tokens
from bridge.access.caller import ANYBODY, Caller
from bridge.access.decision import Need, may
from bridge.access.errors import NotAllowed, TooManyRequests, TooManyTopics
from bridge.access.token import (
    Scope,
    Token,
    masked,
    new_id,
    new_secret,
    presented,
    sha256_of,
    written,
)
from bridge.settings.settings import Settings

ID, SECRET = "0f4c19a2b7de", "5e" * 32
SEND = Need(scope=Scope.SEND)
EVERYWHERE = Need(scope=Scope.LOOK, every_topic=True)


def token(*scopes: str, **fields: object) -> Token:
    given = {"id": ID, "name": "shop", "sha256": sha256_of(SECRET), "scopes": scopes, "created_ms": 1} | fields
    return Token.model_validate(given, strict=False)


@pytest.mark.parametrize("held", Scope)
@pytest.mark.parametrize("needed", Scope)
def test_scope_allows_itself_and_look(held: Scope, needed: Scope) -> None:
    refusal = may(token(held, every_topic=True), Need(scope=needed), "orders")
    assert (refusal is None) == (needed in {held, Scope.LOOK})


@pytest.mark.parametrize(
    ("fields", "topic", "allowed"),
    [
        ({"namespaces": ["shop"]}, "shop/orders", True),
        ({"namespaces": ["shop", "crm"]}, "crm/orders", True),
        ({"namespaces": ["shop"]}, "shop2/orders", False),
        ({"namespaces": ["shop"]}, "Shop/orders", False),
        ({"namespaces": ["shop"]}, "shop", False),
        ({"namespaces": ["shop"]}, "shop.orders", False),
        ({"namespaces": ["shop"]}, "/orders", False),
        ({"namespaces": ["shop"]}, "crm/shop", False),
        ({"namespaces": ["shop"]}, "orders", False),
        ({"bare_topics": True}, "orders", True),
        ({"bare_topics": True}, "shop/orders", False),
        ({"namespaces": ["shop"], "bare_topics": True}, "orders", True),
        ({"every_topic": True}, "orders", True),
        ({"every_topic": True}, "shop/orders", True),
        ({}, "orders", False),
    ],
)
def test_token_reaches_the_topics_of_its_namespaces(fields: dict[str, object], topic: str, allowed: bool) -> None:
    assert (may(token("send", **fields), SEND, topic) is None) == allowed


def test_call_on_every_topic_is_refused_to_a_namespace_token() -> None:
    assert may(token("look", every_topic=True), EVERYWHERE) is None
    refusal = may(token("admin", "look", namespaces=["shop"], bare_topics=True), EVERYWHERE)
    assert isinstance(refusal, NotAllowed)
    assert "every topic" in str(refusal)


def test_missing_scope_is_refused_before_the_topic_is_known() -> None:
    refusal = may(token("look", "consume", every_topic=True), SEND)
    assert refusal is not None
    assert (refusal.scope, refusal.token_id) == (Scope.SEND, ID)
    assert str(refusal) == "this request needs a token with the scope send; this token has look, consume"
    assert refusal.headers == {
        "WWW-Authenticate": 'Bearer realm="delaybridge", error="insufficient_scope", scope="send"'
    }


def test_caller_without_a_token_has_no_limits() -> None:
    ANYBODY.check("orders", "shop/orders")
    assert ANYBODY.sees("shop/orders")
    assert ANYBODY.max_body(7) == 7
    assert ANYBODY.maker is None


def test_caller_has_the_limits_of_its_token() -> None:
    caller = Caller(token("send", namespaces=["shop"], max_body=5), SEND)
    caller.check("shop/a", "shop/b")
    with pytest.raises(NotAllowed):
        caller.check("shop/a", "orders")
    assert [caller.sees(topic) for topic in ("shop/a", "a", "crm/a")] == [True, False, False]
    assert (caller.max_body(7), caller.max_body(3)) == (5, 3)
    assert caller.maker is None


def test_maker_of_topics_refuses_with_the_topic_the_number_and_the_limit() -> None:
    maker = Caller(token("send", every_topic=True, max_topics=5), SEND).maker
    assert maker is not None
    assert (maker.token_id, maker.max_topics) == (ID, 5)
    with pytest.raises(TooManyTopics, match=r"'orders' is new, and this token has made 7 topics.* its limit is 5"):
        maker.refuse("orders", 7)


def test_new_token_is_read_back_and_accepts_only_its_secret() -> None:
    token_id, secret = new_id(), new_secret()
    assert presented(f"Bearer {written(token_id, secret)}".encode()) == (token_id, secret.encode())
    made = token("send", id=token_id, sha256=sha256_of(secret))
    assert made.is_of(secret.encode())
    assert not made.is_of(new_secret().encode())
    assert secret not in made.model_dump_json()


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (f"Bearer dbt_{ID}_{SECRET}", True),
        (f"bearer dbt_{ID}_{SECRET}", True),
        (f"BEARER  dbt_{ID}_{SECRET}", True),
        (f"Bearer dbt_{ID}_{SECRET} ", False),
        (f"Bearer dbt_{ID}_{SECRET}, Bearer dbt_{ID}_{SECRET}", False),
        (f"Bearer\tdbt_{ID}_{SECRET}", False),
        (f"Bearerdbt_{ID}_{SECRET}", False),
        (f"Bearer dbt_{ID}_{SECRET.upper()}", False),
        (f"Bearer dbt_{ID}_{SECRET[:-1]}", False),
        (f"Bearer dbt_{ID}{SECRET}", False),
        (f"Basic dbt_{ID}_{SECRET}", False),
        (f"dbt_{ID}_{SECRET}", False),
        ("Bearer ", False),
        ("", False),
    ],
)
def test_only_a_well_formed_header_is_read_as_a_token(value: str, read: bool) -> None:
    assert presented(value.encode()) == ((ID, SECRET.encode()) if read else None)


@pytest.mark.parametrize(
    "fields",
    [
        {"id": "short"}, {"sha256": SECRET[:-1]}, {"scopes": []}, {"scopes": ["all"]}, {"namespaces": ["a/b"]},
        {"namespaces": [""]}, {"sends_per_s": 0}, {"pulls_per_s": 100_001}, {"max_body": 0}, {"max_topics": 0},
        {"max_topics": 1_001}, {"name": " "}, {"name": ""}, {"secret": SECRET}, {"every_topic": "yes, all"},
    ],
)  # fmt: skip
def test_token_with_an_invalid_field_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        token(**{"scopes": ["send"]} | fields)


def test_secret_is_masked_anywhere_in_a_text() -> None:
    text = f'{{"value": "dbt_{ID}_{SECRET}", "other": "dbt_x"}}'.encode()
    assert masked(text) == f'{{"value": "dbt_{ID}_...", "other": "dbt_x"}}'.encode()


@pytest.mark.parametrize(("wait_ms", "retry_after_s"), [(1, 1), (1_000, 1), (1_001, 2)])
def test_retry_after_is_rounded_up_to_seconds(wait_ms: int, retry_after_s: int) -> None:
    refusal = TooManyRequests("too many", token_id=ID, wait_ms=wait_ms)
    assert refusal.headers == {"Retry-After": str(retry_after_s)}


@pytest.mark.parametrize(
    ("host", "access", "asks"),
    [
        ("127.0.0.1", None, False), ("127.9.9.9", None, False), ("::1", None, False), ("localhost", None, False),
        ("127.0.0.1", "tokens", True), ("0.0.0.0", "tokens", True), ("0.0.0.0", "open", False), ("::", "open", False),
        ("bridge.example", "tokens", True),
    ],
)  # fmt: skip
def test_host_and_access_setting_decide_whether_tokens_are_required(host: str, access: str | None, asks: bool) -> None:
    assert asks_for_tokens(Settings.model_validate({"http_host": host, "access": access})) == asks


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "bridge.example", "localhost.example", ""])
def test_public_host_without_an_access_setting_is_refused(host: str) -> None:
    with pytest.raises(Undecided, match=r"BRIDGE_ACCESS=tokens.*BRIDGE_ACCESS=open"):
        asks_for_tokens(Settings.model_validate({"http_host": host}))
