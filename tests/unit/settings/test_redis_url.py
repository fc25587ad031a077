"""Tests parsing of Redis URLs: one server, Sentinel and Cluster."""

from __future__ import annotations

import pytest

from bridge.settings.redis_url import Address, read_address


@pytest.mark.parametrize(
    "url",
    ["redis://127.0.0.1:6379/0", "redis://user:p%40ss@host", "rediss://host:1/3?ssl_ca_certs=/ca", "unix:///sock"],
)
def test_single_server_url_is_left_to_redis_py(url: str) -> None:
    assert read_address(url) == Address(kind="single")


def test_sentinel_url_names_sentinels_service_and_database() -> None:
    assert read_address("redis+sentinel://one:1,[::1],three/main/2") == Address(
        kind="sentinel", hosts=(("one", 1), ("::1", 26_379), ("three", 26_379)), service="main", options={"db": 2}
    )


def test_servers_and_sentinels_have_separate_passwords() -> None:
    address = read_address(
        "rediss+sentinel://app:p%40@s/main?sentinel_username=u&sentinel_password=w%2F&ssl_ca_certs=/ca"
    )
    assert address.tls
    assert address.options == {"username": "app", "password": "p@", "ssl_ca_certs": "/ca"}
    assert address.sentinel_options == {"username": "u", "password": "w/", "ssl_ca_certs": "/ca"}


def test_cluster_url_names_some_nodes() -> None:
    assert read_address("redis+cluster://:secret@one,two:7001") == Address(
        kind="cluster", hosts=(("one", 6_379), ("two", 7_001)), options={"password": "secret"}
    )
    assert read_address("rediss+cluster://one/0").tls


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("127.0.0.1:6379", "has to begin with one of redis://"),
        ("http://secret@host", "has to begin with one of redis://"),
        ("redis://secret@host:many", "port or an option"),
        ("redis+sentinel://:secret@one:26379", "name that the sentinels know"),
        ("redis+sentinel://:secret@one/main/first", "database has to be a number"),
        ("redis+sentinel://:secret@one:99999/main", "hosts have to be"),
        ("redis+sentinel://:secret@one,,two/main", "hosts have to be"),
        ("redis+cluster://", "hosts have to be"),
        ("redis+cluster://:secret@one:7000/1", "only the database 0"),
        ("redis+cluster://:secret@::1:7000", "hosts have to be"),
    ],
)
def test_malformed_redis_url_is_refused_without_showing_the_password(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        read_address(url)
    assert "secret" not in str(refused.value)
