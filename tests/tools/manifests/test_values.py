"""Tests, without Helm, that the chart makes what the Kustomize base makes, and that its schema refuses wrong values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.docs.documents import text
from tests.tools.manifests.rendered import CHART, KEPT, Object, Objects, digest_line, kept, over_base
from tests.tools.manifests.test_objects import relative

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())


# Labels and annotations that only Helm sets, or that the two tools set on different objects.
_OF_HELM = (
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/part-of",
    "app.kubernetes.io/version",
    "checksum/",
    "helm.sh/",
)


def plain(objects: Objects) -> Objects:
    """The objects without what differs between the two tools: Helm's labels, and the hash in a ConfigMap's name."""
    settings = next(one["data"] for (kind, _), one in objects.items() if kind == "ConfigMap")
    texts = re.sub(r"\bdelaybridge-[0-9a-z]{10}\b", "delaybridge", json.dumps(list(objects.values())))
    found: list[Object] = json.loads(texts)
    return {(one["kind"], one["metadata"]["name"]): _without_tools(one, settings) for one in found}


def _without_tools(value: Any, settings: dict[str, str]) -> Any:
    if isinstance(value, list):
        return [_without_tools(one, settings) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {
        key: _without_tools(one, settings)
        for key, one in value.items()
        if not key.startswith(_OF_HELM) and key != "envFrom"
    }
    if "envFrom" in value:
        assert value["envFrom"] == [{"configMapRef": {"name": "delaybridge"}}]
        kept["env"] = [{"name": name, "value": one} for name, one in settings.items()] + kept.get("env", [])
    if "env" in kept:
        kept["env"] = sorted(kept["env"], key=lambda variable: variable["name"])
    return {key: one for key, one in kept.items() if key not in ("annotations", "labels") or one}


def test_kept_rendering_is_of_the_present_chart() -> None:
    assert KEPT.read_text().partition("\n")[0] == digest_line(), "deploy/helm has changed: run `make test-manifests`"


def test_chart_makes_what_the_base_makes(tmp_path: Path) -> None:
    component = over_base(tmp_path, components=[relative(tmp_path, "declare")])
    assert plain(kept()) == plain(component)


def test_default_values_follow_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(SCHEMA)
    jsonschema.Draft7Validator(SCHEMA).validate(VALUES)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"image": {"tag": "latest"}}, "tag"),
    ({"image": {"tag": "", "digest": ""}}, "image"),
    ({"image": {"digest": "sha256:short"}}, "digest"),
    ({"settings": {"BRIDGE_AMQP_URL": "amqp://user:password@host"}}, "BRIDGE_AMQP_URL"),
    ({"settings": {"BRIDGE_LANES": 2}}, "BRIDGE_LANES"),
    ({"settings": {"LANES": "2"}}, "LANES"),
    ({"roles": {"apis": {"replicas": 1}}}, "apis"),
    ({"roles": {"api": {"replicas": -1}}}, "replicas"),
    ({"declare": {"topics": ["a#"]}}, "topics"),
    ({"networkPolicy": {"apiFrom": []}}, "apiFrom"),
    ({"autoscalling": {"enabled": False}}, "autoscalling"),
]


@pytest.mark.parametrize(("values", "named"), WRONG, ids=lambda one: one if isinstance(one, str) else "")
def test_wrong_value_is_refused_with_its_name(values: dict[str, Any], named: str) -> None:
    errors = list(jsonschema.Draft7Validator(SCHEMA).iter_errors(merged(VALUES, values)))
    assert errors
    assert any(named in f"{error.json_path} {error.message}" for error in errors)


def merged(values: Any, over: Any) -> Any:
    """The values as Helm merges them."""
    if not (isinstance(values, dict) and isinstance(over, dict)):
        return over
    return values | {key: merged(values.get(key), one) for key, one in over.items()}


def test_chart_has_the_version_of_the_bridge() -> None:
    found = yaml.safe_load((CHART / "Chart.yaml").read_text())
    for version in (found["version"], found["appVersion"], VALUES["image"]["tag"]):
        assert f'\nversion = "{version}"\n' in text("pyproject.toml")
