"""Tests what Helm makes of the chart for other values than the defaults."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tools.manifests.rendered import HELM_IS_HERE, Objects, RefusedValues, chart, kept
from tests.tools.manifests.test_objects import DOCUMENTED, containers
from tests.tools.manifests.test_values import WRONG

pytestmark = pytest.mark.skipif(
    not HELM_IS_HERE, reason="neither helm nor helm-python-sdk renders deploy/helm here: make test-manifests"
)


def test_kept_rendering_is_what_helm_makes_now() -> None:
    assert kept() == chart({"declare": {"enabled": True}})


def test_chart_declares_only_if_asked_to() -> None:
    assert kept().keys() - chart().keys() == {("Job", "delaybridge-declare")}


def test_job_runs_before_an_install_and_an_upgrade_with_every_topic() -> None:
    job = chart({"declare": {"enabled": True, "topics": ["orders", "eu/bills"], "directTopics": ["mails"]}})[
        "Job", "delaybridge-declare"
    ]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "pre-install,pre-upgrade"
    (container,) = job["spec"]["template"]["spec"]["containers"]
    topics = ["--topic", "orders", "--topic", "eu/bills", "--direct", "mails"]
    assert container["args"] == ["delaybridge", "topology", "--pool", "default", *topics, "apply"]
    # Neither the ConfigMap nor the account of the release exists before it.
    assert "envFrom" not in container
    assert "serviceAccountName" not in job["spec"]["template"]["spec"]


def test_parts_can_be_switched_off() -> None:
    off = {"enabled": False}
    objects = chart({"autoscaling": off, "podMonitor": off, "networkPolicy": off})
    assert {kind for kind, _ in objects} == {
        "ConfigMap",
        "Deployment",
        "PodDisruptionBudget",
        "Service",
        "ServiceAccount",
    }
    assert objects["Deployment", "delaybridge-checkpoint"]["spec"]["replicas"] == 2


def test_change_of_a_setting_starts_the_pods_again() -> None:
    def annotations(objects: Objects) -> Any:
        return objects["Deployment", "delaybridge-api"]["spec"]["template"]["metadata"]["annotations"]

    assert annotations(chart({"settings": {"BRIDGE_LANES": "2"}})) != annotations(chart())


def test_digest_of_the_user_is_the_image_of_every_pod() -> None:
    digest = f"sha256:{'0' * 64}"
    image = {"repository": "registry.example/delaybridge", "tag": "", "digest": digest}
    objects = chart({"image": image, "declare": {"enabled": True}})
    assert {one["image"] for one in containers(objects)} == {f"registry.example/delaybridge@{digest}"}


def test_documented_values_are_taken() -> None:
    (documented,) = [one for one in DOCUMENTED if "roles" in one]
    objects = chart(documented)
    assert {one["image"].partition("@")[2] for one in containers(objects)} == {documented["image"]["digest"]}
    assert objects["Deployment", "delaybridge-push"]["spec"]["replicas"] == 0


def test_helm_refuses_what_the_schema_refuses() -> None:
    values, named = WRONG[0]
    with pytest.raises(RefusedValues, match=named):
        chart(values)
