"""Tests which brokers are refused and with which message."""

from typing import Any

import pytest

from topology.errors import BrokerUnsuitable
from topology.verify import CAPABILITIES, check_server


def properties(version: object, **changed: Any) -> dict[str, Any]:
    return {"product": "RabbitMQ", "version": version, "capabilities": dict.fromkeys(CAPABILITIES, True)} | changed


@pytest.mark.parametrize(
    "version", ["3.10.0", "3.10.8", "3.12.14", "3.13.3", "3.13.10", "4.0.5", "4.3.6", "4.1.0-rc.1", "4.2.0+7", b"4.0.5"]
)
def test_suitable_broker_is_accepted(version: object) -> None:
    check_server(properties(version))


@pytest.mark.parametrize(
    ("version", "required"),
    [
        ("3.9.29", "3.10 or newer"),
        ("3.8.0", "3.10 or newer"),
        ("2.8", "3.10 or newer"),
        ("unknown", "3.10 or newer"),
        ("3.13.0", "3.13.3 or newer"),
        ("3.13.2", "3.13.3 or newer"),
        ("3.13.1+3", "3.13.3 or newer"),
    ],
)
def test_unsuitable_version_is_refused_with_found_and_required(version: str, required: str) -> None:
    with pytest.raises(BrokerUnsuitable, match=f"version is .*; it must be {required}") as refused:
        check_server(properties(version))

    assert (refused.value.what, refused.value.found, refused.value.required) == ("version", version, required)


def test_another_product_is_refused() -> None:
    with pytest.raises(BrokerUnsuitable, match="product is LavinMQ; it must be RabbitMQ"):
        check_server(properties("4.0.0", product="LavinMQ"))


@pytest.mark.parametrize("name", CAPABILITIES)
def test_broker_without_a_capability_is_refused(name: str) -> None:
    offered = {other: True for other in CAPABILITIES if other != name}

    with pytest.raises(BrokerUnsuitable, match=f"capability {name} is absent"):
        check_server(properties("4.0.5", capabilities=offered))
