"""Tests which URLs and addresses callbacks may go to."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from bridge.model.addresses import Url, non_public_kind, parse_allowed, parse_url, refusal, refusal_of_any

PUBLIC = ["1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.0", "172.15.255.255", "172.32.0.0", "169.253.255.255",
          "223.255.255.255", "192.0.1.0", "168.63.129.17", "2606:4700::1111", "2a00:1450:4001::1",
          "::ffff:1.1.1.1", "64:ff9b::101:101"]  # fmt: skip
NOT_PUBLIC = {
    "0.0.0.0": "this host",
    "10.0.0.1": "private",
    "100.64.0.1": "shared by a carrier's customers",
    "100.100.100.200": "shared by a carrier's customers",  # Alibaba's metadata
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "168.63.129.16": "a cloud's own",  # Azure's platform service
    "169.254.169.254": "link-local",  # nearly everybody's metadata
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.0.0.192": "reserved",  # Oracle's metadata
    "192.0.2.1": "reserved",
    "192.88.99.1": "reserved",
    "192.168.1.1": "private",
    "198.18.0.1": "reserved",
    "198.19.255.255": "reserved",
    "198.51.100.1": "reserved",
    "203.0.113.1": "reserved",
    "224.0.0.1": "multicast",
    "239.255.255.255": "multicast",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "::": "this host",
    "::1": "loopback",
    "::127.0.0.1": "reserved",  # the old compatible form
    "::ffff:127.0.0.1": "loopback",
    "::ffff:10.0.0.1": "private",
    "::ffff:169.254.169.254": "link-local",
    "64:ff9b::7f00:1": "loopback",
    "64:ff9b::a9fe:a9fe": "link-local",
    "64:ff9b:1::1": "reserved",
    "100::1": "reserved",
    "2001::1": "reserved",
    "2001:db8::1": "reserved",
    "2002:7f00:1::": "a tunnel's",
    "3fff::1": "reserved",
    "5f00::1": "reserved",
    "fc00::1": "private",
    "fd00:ec2::254": "private",  # Amazon's metadata
    "fe80::1": "link-local",
    "fec0::1": "reserved",
    "ff02::1": "multicast",
}


@pytest.mark.parametrize("address", PUBLIC)
def test_https_to_a_public_address_is_allowed(address: str) -> None:
    assert non_public_kind(ip_address(address)) is None
    assert refusal(parse_url("https://hooks.example/"), ip_address(address), ()) is None


@pytest.mark.parametrize(("address", "kind"), NOT_PUBLIC.items())
def test_any_other_address_is_refused_with_its_kind(address: str, kind: str) -> None:
    why = refusal(parse_url("https://hooks.example/"), ip_address(address), ())
    assert why is not None
    assert f"({kind};" in why


@pytest.mark.parametrize(
    ("allowed", "url", "address", "may"),
    [
        ("", "http://hooks.example/", "1.1.1.1", False),
        ("http://0.0.0.0/0", "http://hooks.example/", "1.1.1.1", True),
        ("10.0.0.0/8", "https://hooks.example/", "10.1.2.3", True),
        ("10.0.0.0/8", "https://hooks.example/", "::ffff:10.1.2.3", True),
        ("10.0.0.0/8", "https://hooks.example/", "192.168.0.1", False),
        ("10.0.0.0/8", "http://hooks.example/", "10.1.2.3", False),
        ("http://10.0.0.0/8", "http://hooks.example/", "10.1.2.3", True),
        ("http://10.0.0.0/8", "http://hooks.example/", "1.1.1.1", False),
        ("10.0.0.0/8, http://127.0.0.1", "http://hooks.example/", "127.0.0.1", True),
        ("127.0.0.1", "https://hooks.example/", "127.0.0.2", False),
        ("hooks.internal", "https://Hooks.Internal/", "10.1.2.3", True),
        ("hooks.internal", "https://other.internal/", "10.1.2.3", False),
        ("hooks.internal", "http://hooks.internal/", "10.1.2.3", False),
        ("http://hooks.internal", "http://hooks.internal/", "1.1.1.1", True),
        ("fd00::/8", "https://hooks.example/", "fd00::1", True),
        ("http://[::1]", "http://hooks.example/", "::1", True),
        ("0.0.0.0/0", "https://hooks.example/", "::1", False),
    ],
)
def test_the_settings_allow_other_addresses_and_hosts(allowed: str, url: str, address: str, may: bool) -> None:
    assert (refusal(parse_url(url), ip_address(address), parse_allowed(allowed)) is None) == may


def test_a_host_with_one_private_address_is_refused() -> None:
    addresses = [ip_address("1.1.1.1"), ip_address("127.0.0.1")]
    assert "127.0.0.1" in (refusal_of_any(parse_url("https://hooks.example/"), addresses, ()) or "")


@pytest.mark.parametrize("entry", ["10.0.0.0/33", "10.0.0.1/8", "a b", "https://hooks.example", "-", "1.2.3", "a/b"])
def test_a_malformed_entry_is_named_in_the_error(entry: str) -> None:
    with pytest.raises(ValueError, match="must be a host, an address"):
        parse_allowed(f"10.0.0.0/8,{entry}")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://hooks.example", Url("https", "hooks.example", 443, "/")),
        ("https://hooks.example:8443/a/b?c=d&e=%20", Url("https", "hooks.example", 8_443, "/a/b?c=d&e=%20")),
        ("http://127.0.0.1/", Url("http", "127.0.0.1", 80, "/")),
        ("https://[2606:4700::1111]:444/x", Url("https", "2606:4700::1111", 444, "/x")),
        ("https://HOOKS.example/", Url("https", "hooks.example", 443, "/")),
        ("https://xn--mnchen-3ya.example/", Url("https", "xn--mnchen-3ya.example", 443, "/")),
    ],
)
def test_a_url_is_split_into_its_parts(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    "text",
    ["", "hooks.example", "ftp://hooks.example/", "https://", "https:///x", "https://user:secret@hooks.example/",
     "https://user@hooks.example/", "https://hooks.example/#part", "https://hooks.example\\@evil.example/",
     "https://hooks.example/a b", "https://hooks.example/\r\nx: y", "https://hooks.example:0/",
     "https://hooks.example:65536/", "https://hooks.example:x/", "https://münchen.example/", "https://[::1",
     "https://[fe80::1%25eth0]/", "https://hooks.example?x=y", "https://-a.example/", "HTTPS://hooks.example/",
     "https://hooks.example/" + "a" * 2_048, "https://hooks..example/", "https://hooks.example/\n"],
)  # fmt: skip
def test_an_ambiguous_url_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be https://host"):
        parse_url(text)


@pytest.mark.parametrize("host", ["[8Efeb0cA]", "[::1.2.3]", "[1.2.3.4]", "[::1::]", "[:::]"])
def test_brackets_without_an_ipv6_address_are_refused(host: str) -> None:
    with pytest.raises(ValueError, match="must have an IPv6 address between its brackets"):
        parse_url(f"https://{host}/")


def test_the_host_header_contains_a_port_that_is_not_the_schemes_default() -> None:
    assert [
        parse_url(url).authority for url in ("https://a.example/", "http://a.example:81/", "https://[::1]:444/")
    ] == [
        "a.example",
        "a.example:81",
        "[::1]:444",
    ]
