"""Tests what the bridge makes of each error code of Redis."""

from __future__ import annotations

import pytest
from redis._parsers.base import BaseParser
from redis.exceptions import AuthenticationError, ConnectionError, ResponseError

from bridge.model.errors import StoreRefused, StoreUnavailable
from bridge.store.servers.refusals import REFUSALS, renews, unavailable

RENEWING = {"READONLY", "MASTERDOWN", "LOADING", "NOREPLICAS", "NOAUTH", "WRONGPASS", "NEWCODE"}
SAYS = "3999 127.0.0.1:6381"  # the slot and the server of a redirection
FAULTS = {"ERR", "WRONGTYPE", "CROSSSLOT", "NEWCODE"}


def answered(text: str) -> Exception:
    """The error that redis-py makes of an answer."""
    error: Exception = BaseParser.parse_error(text)  # type: ignore[no-untyped-call]
    return error


@pytest.mark.parametrize("code", [*REFUSALS, "NEWCODE"])
def test_every_code_is_unavailable_and_names_server_code_and_text(code: str) -> None:
    error = unavailable("Redis at db:6379", answered(f"{code} {SAYS}"))

    assert isinstance(error, StoreRefused)
    assert (error.code, error.is_fault) == (code, code in FAULTS)
    assert str(error).startswith("Redis at db:6379 ")
    assert str(error).endswith(f" ({code} {SAYS})")


@pytest.mark.parametrize("code", [*REFUSALS, "NEWCODE"])
def test_connections_are_renewed_where_another_server_may_have_the_address(code: str) -> None:
    assert renews(answered(f"{code} {SAYS}")) is (code in RENEWING)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("The user executing the script can't run this command or subcommand script: f9", "check its ACL"),
        ("ACL failure in script: User bridge has no permissions to run the 'zadd' command", "check its ACL"),
        ("invalid password", "check the user and the password"),
        ("max number of clients reached", "takes no more connections"),
    ],
)
def test_refusals_without_a_code_of_their_own_are_told_apart_by_their_words(text: str, says: str) -> None:
    error = unavailable("Redis", answered(f"ERR {text}"))

    assert isinstance(error, StoreRefused)
    assert (error.code, error.is_fault, says in str(error)) == ("ERR", False, True)


def test_an_answer_without_a_code_is_a_fault() -> None:
    error = unavailable("Redis", ResponseError("wrong"))

    assert (str(error), isinstance(error, StoreRefused) and error.is_fault) == (
        "Redis refuses the call (ERR wrong)",
        True,
    )


@pytest.mark.parametrize("error", [ConnectionError("cut"), OSError("cut"), TimeoutError(), AuthenticationError("?")])
def test_a_server_that_gave_no_answer_is_not_taken_for_one_that_refuses(error: Exception) -> None:
    found = unavailable("Redis", error, partly=True)

    assert (type(found), str(found), found.partly) == (
        StoreUnavailable,
        f"Redis did not answer: {type(error).__name__}",
        True,
    )
    assert not renews(error)
