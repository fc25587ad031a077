"""Tests that pages of other sites can't use a bridge without tokens through a browser on its machine."""

from __future__ import annotations

import pytest

from bridge.access.errors import ForeignSite
from bridge.access.local import check_local

LOCAL = [
    {},
    {"host": "localhost"},
    {"host": "LOCALHOST:8080"},
    {"host": "127.0.0.1:8080"},
    {"host": "127.9.9.9"},
    {"host": "[::1]:8080"},
    {"host": "localhost:8080", "origin": "http://localhost:3000"},
    {"host": "localhost:8080", "origin": "https://[::1]"},
    {"host": "localhost", "referer": "http://elsewhere.example/"},
]
FOREIGN = [
    ({"host": "elsewhere.example:8080"}, "Host", "elsewhere.example:8080"),
    ({"host": "localhost.elsewhere.example"}, "Host", "localhost.elsewhere.example"),
    ({"host": "127.0.0.1.elsewhere.example"}, "Host", "127.0.0.1.elsewhere.example"),
    ({"host": "10.0.0.1"}, "Host", "10.0.0.1"),
    ({"host": "localhost@elsewhere.example"}, "Host", "localhost@elsewhere.example"),
    ({"host": "[::1"}, "Host", "[::1"),
    ({"host": ""}, "Host", ""),
    ({"host": "localhost", "origin": "http://elsewhere.example"}, "Origin", "http://elsewhere.example"),
    ({"host": "localhost", "origin": "null"}, "Origin", "null"),
]


def encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


@pytest.mark.parametrize("headers", LOCAL)
def test_a_request_that_names_this_machine_is_allowed(headers: dict[str, str]) -> None:
    check_local(encoded(headers))


@pytest.mark.parametrize(("headers", "header", "value"), FOREIGN)
def test_a_request_that_names_another_site_is_refused(headers: dict[str, str], header: str, value: str) -> None:
    with pytest.raises(ForeignSite) as caught:
        check_local(encoded(headers))
    assert str(caught.value).startswith(f"{header} is {value!r}, and a bridge without tokens allows only localhost")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ForeignSite) as caught:
        check_local(encoded({"host": "h" * 5_000}))
    assert len(str(caught.value)) < 400
