"""What UPGRADING.md says can't be changed is what Kubernetes refuses to change, and the rest can be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.helm.chart.golden import CASES, read
from tests.helm.chart.render import CHART, Object, render

pytestmark = pytest.mark.chart

TEXT = (CHART / "UPGRADING.md").read_text(encoding="utf-8")
FIXED = ("selector", "serviceName", "podManagementPolicy", "volumeClaimTemplates")
"""Of a StatefulSet, what an update may not touch (Kubernetes 1.28 to 1.37)."""
FIELDS = [[field] for field in FIXED]
NODE, STORE = "fleet-framehold-node", "fleet-framehold-store"


def fixed(values: dict[str, Any], name: str) -> Object:
    spec = render(values).one("StatefulSet", name)["spec"]
    return {key: spec[key] for key in FIXED if key in spec}


def kept(**persistence: Any) -> dict[str, Any]:
    return {"store": {"bundled": {"persistence": persistence}}}


@pytest.mark.parametrize(
    ("value", "values", "name"),
    [
        ("nameOverride", {"nameOverride": "booking", "fullnameOverride": "fleet-framehold"}, NODE),
        ("store.bundled.persistence.enabled", kept(enabled=False), STORE),
        ("store.bundled.persistence.size", kept(size="9Gi"), STORE),
        (".storageClass", kept(storageClass="fast"), STORE),
    ],
)
def test_what_kubernetes_refuses_to_change_is_listed(value: str, values: dict[str, Any], name: str) -> None:
    assert fixed(values, name) != fixed({}, name)
    _, _, listed = TEXT.partition("## What can't be changed")
    assert re.search(rf"(?m)^\|[^|]*`{re.escape(value)}`", listed)


@pytest.mark.parametrize("case", CASES)
def test_one_kind_of_installation_can_become_another(case: str) -> None:
    """Golden files have what differs; where the store is another one, nothing is changed of it."""
    changed = [
        path for path in read(case)["changes"] if path.startswith("StatefulSet") and path.split(".")[2:3] in FIELDS
    ]
    assert [path for path in changed if not path.startswith(f"StatefulSet {STORE}.spec.volumeClaimTemplates")] == []


def test_names_in_it_are_names_of_objects() -> None:
    """As `kubectl` is told them, with F for the release's own."""
    named = {name.removeprefix("F") for name in re.findall(r"(?:statefulset|deployment)[/ ](F-[a-z]+)", TEXT)}
    haproxy = render({"haproxy": {"enabled": True}})
    there = {made["metadata"]["name"] for kind in ("StatefulSet", "Deployment") for made in haproxy.of(kind)}
    assert {f"fleet-framehold{name}" for name in named} == there
    claim = haproxy.one("StatefulSet", STORE)["spec"]["volumeClaimTemplates"][0]["metadata"]["name"]
    assert set(re.findall(r"pvc (\S+?)`", TEXT)) == {f"{claim}-F-store-0"}
