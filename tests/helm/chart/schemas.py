"""Kubernetes' own schemas, of every release that the chart is meant for: strict, a misspelt field is a fault."""

from __future__ import annotations

from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from kubernetes_validate.utils import all_versions, schema_contents
from referencing import Registry, Resource

_ALL = dict.fromkeys(release.removesuffix("-strict").removesuffix("-local") for release in all_versions())
RELEASES = [release for release in _ALL if tuple(map(int, release.split("."))) >= (1, 28)]
"""1.28.0 and later, as far as schemas are at hand."""
CUSTOM = ("ServiceMonitor", "PodMonitor", "PrometheusRule", "ScaledObject", "HTTPRoute")
"""Kinds that clusters learn from others: golden files hold these."""


def faults(made: dict[str, Any], release: str) -> list[str]:
    """What that release of Kubernetes would say of an object."""
    where = "/".join(map(str, (made["kind"], made["metadata"]["name"])))
    found = _validator(release, made["kind"], made["apiVersion"]).iter_errors(made)
    return [f"{where} in {release}: {error.json_path}: {error.message[:200]}" for error in found]


@cache
def _validator(release: str, kind: str, version: str) -> Draft202012Validator:
    """Raises FileNotFoundError: that release has no such kind."""
    group, _, level = version.rpartition("/")
    name = "-".join(part for part in (kind.lower(), group.split(".")[0], level) if part)
    schema = schema_contents(f"kubernetes-json-schema/v{release}-local-strict/{name}.json", release)
    return Draft202012Validator(schema, registry=Resource.from_contents(schema) @ _definitions(release))


@cache
def _definitions(release: str) -> Registry[Any]:
    contents = schema_contents(f"kubernetes-json-schema/v{release}-local-strict/_definitions.json", release)
    return Resource.from_contents(contents) @ Registry()
