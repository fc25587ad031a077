"""Tests what an AMQP URL says of address and login."""

from __future__ import annotations

import pytest

from bridge.settings.amqp_login import read_login
from bridge.settings.amqp_urls import amqp_endpoints, checked_amqp_url


@pytest.mark.parametrize(
    ("path", "vhost"),
    [("", "/"), ("/", "/"), ("/%2F", "/"), ("/%2f", "/"), ("/shop", "shop"), ("/shop%2Feu", "shop/eu")],
)
async def test_virtual_host_is_the_default_without_a_name(path: str, vhost: str) -> None:
    url = f"amqp://guest:guest@127.0.0.1:5672{path}"
    assert read_login(url).virtual_host == vhost
    assert amqp_endpoints(url) == {("127.0.0.1", 5672, vhost)}


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://a:b@h:5672?channel_max=5", "channel_max: is no option of the URL; it may have auth and heartbeat"),
        ("amqp://a:b@h:5672?auth=scram", "auth: 'scram' is no login of this bridge"),
        ("amqp://a:b@h:5672?heartbeat=-1", "heartbeat: '-1' is no number of seconds from 0 to 65535"),
        ("amqp://a:b@h:5672?heartbeat=65536", "heartbeat: '65536'"),
        ("amqp://a:b@h:5672?heartbeat=soon", "heartbeat: 'soon'"),
        (f"amqp://a:b@h:5672/{'v' * 128}", "the virtual host has 128 characters, and may have 127"),
    ],
)
def test_wrong_option_is_refused_with_its_value(url: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        checked_amqp_url(url)


def test_address_of_version_6_has_no_brackets() -> None:
    login = read_login("amqp://a:b@[::1]:5672?heartbeat=0")
    assert (login.host, login.port, login.heartbeat_s) == ("::1", 5672, 0)
