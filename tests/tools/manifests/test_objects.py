"""Tests that the manifests for Kubernetes are valid, harden the pods, and agree with the bridge's own code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from bridge.http.v1.health import OPERATIONS
from bridge.model.durations import parse_duration_ms
from bridge.settings.roles import Role
from bridge.settings.settings import Settings
from tests.docs.documents import blocks, text
from tests.tools.manifests.rendered import BASE, Object, Objects, base, kept, over_base

VERSIONS = ("1.31", "1.34", "1.37")
"""The oldest, one in between, and the newest that the manifests are checked against."""

DOCUMENTED = [yaml.safe_load(block) for block in blocks(text("docs/operating/kubernetes.md"), "yaml")]


@pytest.fixture(params=["base", "chart"])
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Objects:
    """All objects of the base or the chart, with the Job that declares."""
    if request.param == "chart":
        return kept()
    return over_base(tmp_path, components=[relative(tmp_path, "declare")])


def relative(folder: Path, name: str) -> str:
    return str(Path(*[".."] * len(folder.parts[1:]), *BASE.parts[1:], name))


def of_kind(objects: Objects, *kinds: str) -> Iterator[Object]:
    return (one for (kind, _), one in objects.items() if kind in kinds)


def pods(objects: Objects) -> list[Object]:
    return [one["spec"]["template"] for one in of_kind(objects, "Deployment", "Job")]


def containers(objects: Objects) -> list[Object]:
    return [container for pod in pods(objects) for container in pod["spec"]["containers"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_every_object_follows_the_schema_of_kubernetes(objects: Objects, version: str) -> None:
    unknown = set()
    for one in objects.values():
        try:
            kubernetes_validate.validate(one, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            unknown.add(one["kind"])
    assert unknown == {"PodMonitor"}  # a kind of the Prometheus operator


def test_schema_refuses_a_misspelt_key() -> None:
    deployment = yaml.safe_load((BASE / "role" / "deployment.yaml").read_text())
    deployment["spec"] |= {"selector": {}, "replica": 1}
    with pytest.raises(kubernetes_validate.ValidationError, match="replica"):
        kubernetes_validate.validate(deployment, VERSIONS[-1], strict=True)


def test_each_role_has_a_deployment_that_runs_it_and_a_disruption_budget(objects: Objects) -> None:
    for kind in ("Deployment", "PodDisruptionBudget"):
        assert {name for found, name in objects if found == kind} == {f"delaybridge-{role}" for role in Role}
    for role in Role:
        template = objects["Deployment", f"delaybridge-{role}"]["spec"]["template"]
        assert template["metadata"]["labels"]["app.kubernetes.io/component"] == role
        (roles,) = template["spec"]["containers"][0]["env"]
        path = "metadata.labels['app.kubernetes.io/component']"
        assert roles == {"name": "BRIDGE_ROLES", "valueFrom": {"fieldRef": {"fieldPath": path}}}


def test_each_selector_selects_the_pods_of_its_own_role_alone(objects: Objects) -> None:
    labels = {name: one["spec"]["template"]["metadata"]["labels"] for (kind, name), one in objects.items() if pod(kind)}
    for (kind, name), one in objects.items():
        selector = selector_of(one)
        if selector is None:
            continue
        assert selector, f"{kind} {name} selects every pod of the namespace"
        selected = {pod for pod, has in labels.items() if selector.items() <= has.items()}
        assert selected == ({name} if name in labels else set(labels)), f"{kind} {name}"


def pod(kind: str) -> bool:
    return kind in {"Deployment", "Job"}


def selector_of(one: Object) -> dict[str, str] | None:
    spec: Any = one.get("spec", {})
    match one["kind"]:
        case "Service":
            return dict(spec["selector"])
        case "NetworkPolicy":
            return dict(spec["podSelector"]["matchLabels"] if spec["podSelector"] else {})
        case "Deployment" | "PodDisruptionBudget" | "PodMonitor":
            return dict(spec["selector"]["matchLabels"])
    return None


def test_no_pod_has_root_or_a_root_that_it_can_write(objects: Objects) -> None:
    for template in pods(objects):
        spec = template["spec"]
        assert spec["automountServiceAccountToken"] is False
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["secrets"]["secret"]["defaultMode"] == 0o440
        assert volumes["tmp"]["emptyDir"] == {"sizeLimit": "64Mi"}
    for container in containers(objects):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"cpu", "memory", "ephemeral-storage"} <= container["resources"]["requests"].keys()
        assert {"memory", "ephemeral-storage"} <= container["resources"]["limits"].keys()


def test_pods_run_as_the_user_of_the_image(objects: Objects) -> None:
    dockerfile = (BASE.parents[1] / "Dockerfile").read_text()
    for template in pods(objects):
        assert f"\nUSER {template['spec']['securityContext']['runAsUser']}\n" in dockerfile


def test_every_pod_has_the_image_of_the_version(objects: Objects) -> None:
    (image,) = {container["image"] for container in containers(objects)}
    name, _, version = image.partition(":")
    assert name == "delaybridge"
    assert f'\nversion = "{version}"\n' in text("pyproject.toml")


def test_digest_of_the_user_is_the_image_of_every_pod(tmp_path: Path) -> None:
    digest = f"sha256:{'0' * 64}"
    image = f"registry.example/delaybridge@{digest}"
    images = [{"name": "delaybridge", "newName": "registry.example/delaybridge", "digest": digest}]
    components = [relative(tmp_path, "declare")]
    assert {one["image"] for one in containers(over_base(tmp_path, images=images, components=components))} == {image}


def test_settings_exist_and_none_is_a_secret(objects: Objects) -> None:
    (settings,) = of_kind(objects, "ConfigMap")
    names = settings["data"].keys() - {"BRIDGE_SECRETS_DIR"}
    assert names <= {f"BRIDGE_{name.upper()}" for name in Settings.model_fields}
    assert not any(name.endswith(("_URL", "_ACCOUNTS", "_SERVICES", "_POOLS")) for name in names)
    for container in containers(objects):
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert mounts == {"secrets": settings["data"]["BRIDGE_SECRETS_DIR"], "tmp": "/tmp"}
    for deployment in of_kind(objects, "Deployment"):
        (port,) = deployment["spec"]["template"]["spec"]["containers"][0]["ports"]
        assert port == {"name": "http", "containerPort": int(settings["data"]["BRIDGE_HTTP_PORT"])}


def test_probes_ask_the_health_endpoints(objects: Objects) -> None:
    paths = {operation.name: operation.path for operation in OPERATIONS}
    for deployment in of_kind(objects, "Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        asked = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
        assert {kind: get["path"] for kind, get in asked.items()} == {
            "startup": paths["live"],
            "liveness": paths["live"],  # no outage of a server may restart a bridge
            "readiness": paths["ready"],
        }
        assert {get["port"] for get in asked.values()} == {"http"}
        # A process says after four seconds that one of its workers does not answer.
        assert container["readinessProbe"]["timeoutSeconds"] > 4
    (monitor,) = of_kind(objects, "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["path"], endpoint["port"]) == (paths["metrics"], "http")


def test_a_pod_has_the_time_that_its_bridge_needs_to_stop(objects: Objects) -> None:
    (settings,) = of_kind(objects, "ConfigMap")
    grace_ms = Settings.model_fields["grace"].default
    needs_ms = parse_duration_ms(settings["data"]["BRIDGE_DRAIN"]) + 2 * grace_ms
    for deployment in of_kind(objects, "Deployment"):
        assert deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] * 1_000 > needs_ms


def test_autoscaler_follows_the_oldest_overdue_message_with_the_checkpoint(objects: Objects) -> None:
    (autoscaler,) = of_kind(objects, "HorizontalPodAutoscaler")
    assert autoscaler["spec"]["scaleTargetRef"]["name"] == f"delaybridge-{Role.CHECKPOINT}"
    (metric,) = autoscaler["spec"]["metrics"]
    name = metric["external"]["metric"]["name"]
    assert f"| `{name}` | gauge |" in text("docs/metrics.md")
    # A number of replicas would undo the autoscaler's at each apply.
    assert "replicas" not in objects["Deployment", f"delaybridge-{Role.CHECKPOINT}"]["spec"]


def test_alerts_know_the_job(objects: Objects) -> None:
    (monitor,) = of_kind(objects, "PodMonitor")
    label = monitor["spec"]["jobLabel"]
    jobs = {template["metadata"]["labels"][label] for template in pods(objects)}
    assert jobs == {"delaybridge"}
    assert 'up{job="delaybridge"}' in text("deploy/prometheus/alerts.yml")


def test_only_push_reaches_addresses_beyond_the_servers_and_no_private_one(objects: Objects) -> None:
    policies = {name: one["spec"] for (kind, name), one in objects.items() if kind == "NetworkPolicy"}
    assert policies.keys() == {"delaybridge", "delaybridge-api", "delaybridge-push"}
    assert policies["delaybridge"]["policyTypes"] == ["Ingress", "Egress"]
    ports = {port["port"] for rule in policies["delaybridge"]["egress"] for port in rule["ports"]}
    assert ports == {53, 5671, 5672, 15671, 15672, 6379, 26379}
    assert "egress" not in policies["delaybridge-api"]
    (public,) = policies["delaybridge-push"]["egress"]
    assert public["ports"] == [{"port": 443}]
    excepted = {network for to in public["to"] for network in to["ipBlock"]["except"]}
    assert {"10.0.0.0/8", "100.64.0.0/10", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"} < excepted


def test_job_declares_with_the_secret_of_another_user(objects: Objects) -> None:
    (job,) = of_kind(objects, "Job")
    spec = job["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    assert container["args"][:4] == ["delaybridge", "topology", "--pool", "default"]
    assert container["args"][-1] == "apply"
    assert spec["restartPolicy"] == "Never"
    assert {volume["secret"]["secretName"] for volume in spec["volumes"] if "secret" in volume} == {
        "delaybridge-declare"
    }


def test_without_the_component_there_is_no_job() -> None:
    assert "Job" not in {kind for kind, _ in base()}


def test_documented_kustomization_builds(tmp_path: Path) -> None:
    (documented,) = [one for one in DOCUMENTED if one.get("kind") == "Kustomization"]
    (base_folder,) = documented.pop("resources")
    assert base_folder == f"../delaybridge/{BASE.relative_to(BASE.parents[1])}"
    objects = over_base(tmp_path, **documented)
    assert {one["image"] for one in containers(objects)} == {
        f"{image['newName']}@{image['digest']}" for image in documented["images"]
    }
    assert objects["Deployment", "delaybridge-push"]["spec"]["replicas"] == 0
    (settings,) = of_kind(objects, "ConfigMap")
    assert (settings["data"]["BRIDGE_LANES"], settings["data"]["BRIDGE_ACCESS"]) == ("2", "tokens")


def test_documented_adapter_gives_the_metric_of_the_autoscaler() -> None:
    (documented,) = [one for one in DOCUMENTED if "externalRules" in one]
    (rule,) = documented["externalRules"]
    (autoscaler,) = of_kind(base(), "HorizontalPodAutoscaler")
    assert rule["seriesQuery"] == autoscaler["spec"]["metrics"][0]["external"]["metric"]["name"]
