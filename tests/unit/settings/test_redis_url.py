"""Tests parsing of Redis URLs: one server, Sentinel and Cluster."""

from __future__ import annotations

import pytest

from bridge.settings.redis_url import RedisAddress, parse_redis_url


@pytest.mark.parametrize(
    "url",
    ["redis://127.0.0.1:6379/0", "redis://user:p%40ss@host", "rediss://host:1/3?ssl_ca_certs=/ca", "unix:///sock"],
)
def test_single_server_url_is_left_to_redis_py(url: str) -> None:
    assert parse_redis_url(url) == RedisAddress(deployment="single")


def test_sentinel_url_names_sentinels_service_and_database() -> None:
    assert parse_redis_url("redis+sentinel://one:1,[::1],three/main/2") == RedisAddress(
        deployment="sentinel", hosts=(("one", 1), ("::1", 26_379), ("three", 26_379)), service="main", options={"db": 2}
    )


def test_servers_and_sentinels_have_separate_passwords() -> None:
    address = parse_redis_url(
        "rediss+sentinel://app:p%40@s/main?sentinel_username=u&sentinel_password=w%2F&ssl_ca_certs=/ca"
    )
    assert address.tls
    assert address.options == {"username": "app", "password": "p@", "ssl_ca_certs": "/ca"}
    assert address.sentinel_options == {"username": "u", "password": "w/", "ssl_ca_certs": "/ca"}


def test_cluster_url_names_some_nodes() -> None:
    assert parse_redis_url("redis+cluster://:secret@one,two:7001") == RedisAddress(
        deployment="cluster", hosts=(("one", 6_379), ("two", 7_001)), options={"password": "secret"}
    )
    assert parse_redis_url("rediss+cluster://one/0").tls


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("127.0.0.1:6379", "must begin with one of redis://"),
        ("http://secret@host", "must begin with one of redis://"),
        ("redis://secret@host:many", "port or an option"),
        ("redis+sentinel://:secret@one:26379", "name that the sentinels know"),
        ("redis+sentinel://:secret@one/main/first", "database in the URL must be a number"),
        ("redis+sentinel://:secret@one:99999/main", "hosts must have the form"),
        ("redis+sentinel://:secret@one,,two/main", "hosts must have the form"),
        ("redis+cluster://", "hosts must have the form"),
        ("redis+cluster://:secret@one:7000/1", "only the database 0"),
        ("redis+cluster://:secret@::1:7000", "hosts must have the form"),
    ],
)
def test_malformed_redis_url_is_refused_without_showing_the_password(url: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as refused:
        parse_redis_url(url)
    assert "secret" not in str(refused.value)
