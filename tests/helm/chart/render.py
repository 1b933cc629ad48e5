"""The chart, rendered by Helm itself (its SDK), without a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import helm_python
import yaml

CHART = Path(__file__).parents[3] / "helm/framehold"
CI = {path.name.removesuffix("-values.yaml"): path for path in sorted((CHART / "ci").glob("*-values.yaml"))}
"""The values that installations of each kind begin with, by that kind."""
_ABOUT = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
VERSION: str = _ABOUT["appVersion"]
"""The version of the images and the package."""
CHART_VERSION: str = _ABOUT["version"]
"""The same as Helm takes it."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """What an installation would make. `objects`: in no order; `notes`: what its user reads then."""

    objects: tuple[Object, ...]
    notes: str

    def of(self, kind: str) -> list[Object]:
        """All objects of a kind."""
        return [made for made in self.objects if made["kind"] == kind]

    def one(self, kind: str, name: str) -> Object:
        """The object of that kind and name, which must be there."""
        found = [made for made in self.of(kind) if made["metadata"]["name"] == name]
        assert len(found) == 1, (
            f"{len(found)} of {kind} {name}; there are {[a['metadata']['name'] for a in self.of(kind)]}"
        )
        return found[0]


class _EachOnce(yaml.CSafeLoader):  # type: ignore[misc]  # PyYAML ships no types
    """YAML in which a map may not say a key twice: each reader of it would choose another one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a map says a key twice: {keys}{node.start_mark}"
        found: dict[Any, Any] = super().construct_mapping(node, deep)
        return found


def render(
    values: dict[str, Any] | None = None, name: str = "fleet", namespace: str = "prod", chart: Path = CHART
) -> Rendered:
    """As `helm install NAME CHART --namespace NAMESPACE` with these values; without any the fleet is a trial's.

    Raises:
        helm_python.HelmError: Helm, the schema or the chart refuses it; the text has the sentence."""
    with helm_python.Chart.load(chart) as loaded:
        texts = loaded.render(values or {}, name=name, namespace=namespace)
    notes = next((text for path, text in texts.items() if path.endswith("NOTES.txt")), "")
    return Rendered(tuple(_objects(texts)), notes)


def ci(kind: str) -> dict[str, Any]:
    """The values of that ci file."""
    read: dict[str, Any] = yaml.safe_load(CI[kind].read_text())
    return read


def secrets_of(pod: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """What the containers of a pod's spec are told by Secrets, as variables or as files: name and key of each, by its
    setting."""
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    mounted = {mount["name"] for one in containers for mount in one.get("volumeMounts", [])}
    projected = [each.get("projected", {}) for each in pod.get("volumes", []) if each["name"] in mounted]
    sources = [source["secret"] for each in projected for source in each.get("sources", [])]
    files = {item["path"]: (secret["name"], item["key"]) for secret in sources for item in secret["items"]}
    variables = {each["name"]: each.get("valueFrom", {}) for one in containers for each in one.get("env", [])}
    refs = {name: value["secretKeyRef"] for name, value in variables.items() if "secretKeyRef" in value}
    return files | {name: (ref["name"], ref["key"]) for name, ref in refs.items()}


def _objects(texts: dict[str, str]) -> Iterator[Object]:
    for path, text in texts.items():
        if path.endswith((".yaml", ".yml")):
            yield from (made for made in yaml.load_all(text, Loader=_EachOnce) if made)
