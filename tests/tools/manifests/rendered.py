"""Renders the manifests for Kubernetes: the base with kubectl, the chart with Helm.

Helm is large, so most checkouts lack it. `python -m tests.tools.manifests.rendered` keeps what it makes of the chart in
`chart.yaml`, for the tests that need no more. `make test-manifests` calls this.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest
import yaml

PROJECT: Final = Path(__file__).parents[3]
BASE: Final = PROJECT / "deploy" / "kustomize"
CHART: Final = PROJECT / "deploy" / "helm"

Object = dict[str, Any]
Objects = dict[tuple[str, str], Object]
"""Objects by kind and name."""

KEPT: Final = Path(__file__).with_name("chart.yaml")
"""What Helm has made of the chart, with the Job that declares. Its first line has the digest of the chart's files."""

HELM_IS_HERE: Final = shutil.which("helm") is not None or find_spec("helm_python") is not None

_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType({})


class RefusedValues(Exception):
    """Helm refuses the values; the message is its own."""


@cache
def base() -> Objects:
    """The objects of deploy/kustomize. Without kubectl the test is skipped."""
    return _built(BASE)


def over_base(folder: Path, **kustomization: Any) -> Objects:
    """The objects of a user's kustomization, which is written into `folder` and has the base as its resource."""
    content = {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": [os.path.relpath(BASE, folder)],
        **kustomization,
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return _built(folder)


def chart(values: Mapping[str, Any] = _DEFAULTS) -> Objects:
    """The objects of deploy/helm with these values over its own. Helm must be here.

    Raises:
        RefusedValues
    """
    if shutil.which("helm"):
        command = ["helm", "template", "delaybridge", str(CHART), "--namespace=default", "--values=-"]
        done = subprocess.run(command, input=yaml.safe_dump(dict(values)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RefusedValues(done.stderr)
        return _by_name([done.stdout])
    helm = import_module("helm_python")
    with helm.Chart.load(CHART) as loaded:
        try:
            return _by_name(loaded.render(dict(values), name="delaybridge", namespace="default").values())
        except (helm.HelmValuesError, helm.HelmRenderError) as error:
            raise RefusedValues(str(error)) from error


def kept() -> Objects:
    """The objects of deploy/helm with the Job that declares, as Helm last made them."""
    return _by_name([KEPT.read_text()])


def digest_line() -> str:
    """The first line of `chart.yaml` if Helm has made it of the present chart."""
    digest = sha256()
    for path in sorted(path for path in CHART.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(CHART)}\0".encode() + path.read_bytes())
    return f"# deploy/helm {digest.hexdigest()}, rendered by `make test-manifests`"


def keep() -> None:
    """Renders the chart into `chart.yaml`."""
    objects = chart({"declare": {"enabled": True}})
    in_order = [objects[key] for key in sorted(objects)]
    KEPT.write_text(f"{digest_line()}\n{yaml.safe_dump_all(in_order, sort_keys=True)}")


def _built(folder: Path) -> Objects:
    if not shutil.which("kubectl"):
        pytest.skip("kubectl is missing, so nothing builds deploy/kustomize")
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr  # a warning of a deprecated field
    return _by_name([done.stdout])


def _by_name(texts: Iterable[str]) -> Objects:
    objects = [one for text in texts for one in yaml.safe_load_all(text) if one]
    named = {(one["kind"], one["metadata"]["name"]): one for one in objects}
    assert len(named) == len(objects)
    return named


if __name__ == "__main__":
    keep()
