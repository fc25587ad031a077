"""Tests which virtual host an AMQP URL names."""

from __future__ import annotations

import aiormq
import pytest

from bridge.settings.amqp_urls import amqp_endpoints


@pytest.mark.parametrize(
    ("path", "vhost"),
    [("", "/"), ("/", "/"), ("/%2F", "/"), ("/%2f", "/"), ("/shop", "shop"), ("/shop%2Feu", "shop/eu")],
)
async def test_virtual_host_is_the_default_without_a_name(path: str, vhost: str) -> None:
    url = f"amqp://guest:guest@127.0.0.1:5672{path}"
    assert aiormq.Connection(url).vhost == vhost
    assert amqp_endpoints(url) == {("127.0.0.1", 5672, vhost)}
