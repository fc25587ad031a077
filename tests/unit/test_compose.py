"""Tests that the container files are valid and have the settings that a safe start needs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from bridge.local.rabbitmq import ADVANCED_CONFIGURATION
from bridge.settings.amqp_urls import amqp_endpoints, checked_amqp_url
from bridge.settings.roles import Role
from bridge.settings.settings import Settings

PROJECT = Path(__file__).parents[2]
NODES = ("rabbitmq-1", "rabbitmq-2", "rabbitmq-3")
CLUSTER = {*NODES, "bridge-1", "bridge-2"}
SCHEMA = Path(__file__).parent / "data" / "compose-spec.json"


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    content = yaml.safe_load((PROJECT / "docker-compose.yml").read_text())
    assert isinstance(content, dict)
    return content


@pytest.fixture(scope="module")
def roles() -> dict[str, Any]:
    content = yaml.safe_load((PROJECT / "deploy" / "compose-roles.yml").read_text())
    assert isinstance(content, dict)
    return content


def validate(compose: dict[str, Any]) -> None:
    jsonschema.Draft201909Validator(json.loads(SCHEMA.read_text())).validate(compose)


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The Dockerfile's instructions with their arguments, continued lines joined."""
    text = (PROJECT / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def test_compose_file_follows_the_compose_specification(compose: dict[str, Any]) -> None:
    validate(compose)


def test_schema_refuses_a_misspelt_key(compose: dict[str, Any]) -> None:
    services = {**compose["services"], "redis": {**compose["services"]["redis"], "helthcheck": {}}}
    with pytest.raises(jsonschema.ValidationError, match="helthcheck"):
        validate({**compose, "services": services})


def test_every_service_has_a_health_check_and_restarts(compose: dict[str, Any]) -> None:
    assert set(compose["services"]) == {"rabbitmq", "redis", "bridge", "prometheus", "grafana", *CLUSTER}
    for service in compose["services"].values():
        assert service["restart"] == "unless-stopped"
        if "build" in service:
            assert "healthcheck" not in service  # the Dockerfile's is in force
        else:
            assert service["healthcheck"]["test"][0] == "CMD"


def test_bridge_waits_for_healthy_servers(compose: dict[str, Any]) -> None:
    healthy = {"condition": "service_healthy"}
    assert compose["services"]["bridge"]["depends_on"] == {"rabbitmq": healthy, "redis": healthy}


def test_bridge_is_killed_only_after_the_time_that_its_end_may_take(compose: dict[str, Any]) -> None:
    """Calls and loops that hang may take BRIDGE_GRACE each (docs/operating/runbook.md#restarts-one-by-one)."""
    drain_ms, grace_ms = (Settings.model_fields[name].default for name in ("drain", "grace"))
    longest_s = (drain_ms + 2 * grace_ms) / 1_000 + 5
    for name in ("bridge", "bridge-1", "bridge-2"):
        grace = compose["services"][name]["stop_grace_period"]
        assert int(grace.removesuffix("s")) > longest_s


def test_roles_file_is_valid_and_gives_each_role_to_one_service(compose: dict[str, Any], roles: dict[str, Any]) -> None:
    validate(roles)
    given = [service["environment"]["BRIDGE_ROLES"] for service in roles["services"].values()]
    assert sorted(given) == sorted(Role)


def test_role_services_share_the_servers_and_limits_of_the_bridge(
    compose: dict[str, Any], roles: dict[str, Any]
) -> None:
    bridge = compose["services"]["bridge"]
    for name in roles["services"].keys() - {"bridge"}:
        service = roles["services"][name]
        assert {key: service[key] for key in bridge.keys() - {"ports", "environment"}} == {
            key: bridge[key] for key in bridge.keys() - {"ports", "environment"}
        }
        servers = {key: value for key, value in bridge["environment"].items() if key != "BRIDGE_WORKERS"}
        assert service["environment"] == {**servers, "BRIDGE_ROLES": name}


def test_data_is_in_named_volumes(compose: dict[str, Any]) -> None:
    data, configuration = compose["services"]["rabbitmq"]["volumes"]
    assert data == "rabbitmq:/var/lib/rabbitmq"
    assert configuration == "./deploy/rabbitmq-advanced.config:/etc/rabbitmq/advanced.config:ro"
    assert compose["services"]["redis"]["volumes"] == ["redis:/data"]
    assert set(compose["volumes"]) == {"rabbitmq", *NODES, "redis", "prometheus", "grafana"}
    for node in NODES:
        assert compose["services"][node]["volumes"][0] == f"{node}:/var/lib/rabbitmq"


def test_images_are_pinned_and_mounted_files_exist(compose: dict[str, Any]) -> None:
    for service in compose["services"].values():
        assert "build" in service or re.search(r":v?\d+\.\d+\.\d+(-management)?$", service["image"])
        mounted = [volume.split(":")[0] for volume in service.get("volumes", []) if volume.startswith("./")]
        assert [path for path in mounted if not (PROJECT / path).exists()] == []


def test_compose_starts_versions_that_are_tested(compose: dict[str, Any]) -> None:
    versions = (PROJECT / "docs" / "versions.md").read_text()
    rabbitmq, redis = (compose["services"][name]["image"].split(":")[1] for name in ("rabbitmq", "redis"))
    assert rabbitmq.removesuffix("-management") in versions
    assert f"7.0 to {redis.rpartition('.')[0]} " in versions


def test_profiles_add_the_cluster_and_what_observes(compose: dict[str, Any]) -> None:
    members: dict[str, set[str]] = {}
    for name, service in compose["services"].items():
        for profile in service.get("profiles", ["none"]):
            members.setdefault(profile, set()).add(name)
    assert members == {
        "none": {"rabbitmq", "redis", "bridge"},
        "observe": {"prometheus", "grafana"},
        "cluster": CLUSTER,
    }


def test_no_two_services_publish_a_port(compose: dict[str, Any]) -> None:
    ports = [port.rpartition(":")[0] for service in compose["services"].values() for port in service.get("ports", [])]
    assert len(ports) == len(set(ports))


def test_bridges_of_the_cluster_know_every_node_and_wait_for_each(compose: dict[str, Any]) -> None:
    for name in ("bridge-1", "bridge-2"):
        bridge = compose["services"][name]
        url = checked_amqp_url(re.sub(r"\$\{\w+:-(\w+)\}", r"\1", bridge["environment"]["BRIDGE_AMQP_URL"]))
        assert {host for host, _, _ in amqp_endpoints(url)} == set(NODES)
        assert bridge["depends_on"].keys() == {*NODES, "redis"}


def test_nodes_of_the_cluster_find_each_other(compose: dict[str, Any]) -> None:
    configuration = (PROJECT / "deploy" / "rabbitmq-cluster.conf").read_text()
    found = re.findall(r"^cluster_formation\.classic_config\.nodes\.\d = rabbit@(.+)$", configuration, re.MULTILINE)
    assert found == list(NODES)
    nodes = [compose["services"][node] for node in NODES]
    assert [node["hostname"] for node in nodes] == found
    assert len({node["environment"]["RABBITMQ_ERLANG_COOKIE"] for node in nodes}) == 1
    for node in nodes:
        assert "./deploy/rabbitmq-cluster.conf:/etc/rabbitmq/conf.d/20-cluster.conf:ro" in node["volumes"]


def test_containers_gain_no_rights_and_only_rabbitmq_writes_its_root(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert service.get("read_only", False) is not name.startswith("rabbitmq")
        assert service["labels"]["delaybridge.part"] in {"broker", "store", "bridge", "observe"}
        if "build" in service:
            assert service["cap_drop"] == ["ALL"]
            assert service["tmpfs"] == ["/tmp:size=64m,mode=1777"]


def test_rabbitmq_keeps_its_node_name(compose: dict[str, Any]) -> None:
    assert compose["services"]["rabbitmq"]["hostname"]


def test_redis_syncs_every_write_and_never_evicts(compose: dict[str, Any]) -> None:
    command = " ".join(compose["services"]["redis"]["command"])
    for setting in ("--appendonly yes", "--appendfsync always", "--maxmemory-policy noeviction"):
        assert setting in command


def test_ports_are_published_on_loopback_only(compose: dict[str, Any]) -> None:
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_image_does_not_run_as_root(instructions: list[tuple[str, str]]) -> None:
    users = [argument for name, argument in instructions if name == "USER"]
    assert users
    assert int(users[-1]) > 0


def test_image_is_made_of_a_pinned_one_that_a_digest_can_replace(instructions: list[tuple[str, str]]) -> None:
    assert [argument for name, argument in instructions if name == "FROM"] == [
        "${PYTHON_IMAGE} AS build",
        "${PYTHON_IMAGE}",
    ]
    (default,) = [argument for name, argument in instructions if name == "ARG"]
    assert re.fullmatch(r"PYTHON_IMAGE=python:3\.\d+\.\d+-slim-\w+", default)


def test_image_installs_locked_packages_with_hashes(instructions: list[tuple[str, str]]) -> None:
    installs = [argument for name, argument in instructions if name == "RUN" and "pip install" in argument]
    assert any("--require-hashes --requirement deploy/requirements.lock" in argument for argument in installs)
    assert all("--require-hashes" in argument or "--no-deps" in argument for argument in installs)


def test_image_has_a_health_check_and_serves(instructions: list[tuple[str, str]]) -> None:
    assert any(name == "HEALTHCHECK" and "/health/live" in argument for name, argument in instructions)
    assert instructions[-1] == ("CMD", '["delaybridge", "serve"]')


def test_files_the_image_copies_are_not_ignored(instructions: list[tuple[str, str]]) -> None:
    kept = {line[1:] for line in (PROJECT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [argument.split()[:-1] for name, argument in instructions if name == "COPY" and "--from" not in argument]
    sources = {source for sources in copied for source in sources}
    assert sources == kept
    assert all((PROJECT / source).exists() for source in sources)


@pytest.mark.parametrize("lock", ["deploy/requirements.lock", "tests/requirements.lock"])
def test_locked_packages_have_hashes_and_name_no_index(lock: str) -> None:
    text = (PROJECT / lock).read_text()
    packages = re.findall(r"^[a-z0-9].*==", text, re.MULTILINE)
    assert len(packages) > 30
    assert len(re.findall(r"^[a-z0-9].*==.*\\\n    --hash=sha256:", text, re.MULTILINE)) == len(packages)
    assert "://" not in text


def test_local_brokers_have_the_advanced_configuration_of_deploy() -> None:
    deployed = (PROJECT / "deploy" / "rabbitmq-advanced.config").read_text()
    assert deployed.endswith(f"\n{ADVANCED_CONFIGURATION}")
