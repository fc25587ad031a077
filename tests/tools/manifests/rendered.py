"""Renders the manifests for Kubernetes: the base with kubectl, the chart with Helm."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from functools import cache
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
    """The objects of deploy/helm with these values over its own. Without Helm the test is skipped.

    Raises:
        RefusedValues
    """
    if shutil.which("helm"):
        command = ["helm", "template", "delaybridge", str(CHART), "--namespace=default", "--values=-"]
        done = subprocess.run(command, input=yaml.safe_dump(dict(values)), capture_output=True, text=True, check=False)
        if done.returncode:
            raise RefusedValues(done.stderr)
        return _by_name([done.stdout])
    if find_spec("helm_python") is None:
        pytest.skip("neither helm nor helm-python-sdk is here, so nothing renders deploy/helm: make test-manifests")
    helm = import_module("helm_python")
    with helm.Chart.load(CHART) as loaded:
        try:
            return _by_name(loaded.render(dict(values), name="delaybridge", namespace="default").values())
        except (helm.HelmValuesError, helm.HelmRenderError) as error:
            raise RefusedValues(str(error)) from error


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
