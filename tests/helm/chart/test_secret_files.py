"""Which container reads which secret, by files that nobody else has."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from framehold_fleet.identity.router_keys import RouterKey
from framehold_router.config import RouterSettings
from tests.helm.chart.golden import PARTS
from tests.helm.chart.render import render, secrets_of
from tests.kit.nodes import KEY

pytestmark = pytest.mark.chart

_READ = {
    "node": {"FRAMEHOLD_KEYS", "FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_STORE_URL"},
    "router": {"FRAMEHOLD_ADMIN_TOKEN", "FRAMEHOLD_STORE_URL"},
    "haproxy": set[str](),
    "test": {"FRAMEHOLD_ADMIN_TOKEN"},
}
"""The secrets that the container of each part reads, and no more."""
_DERIVING = {"router", "haproxy"}
"""The parts whose first container reads the keys, and leaves what it derives."""


def reading(values: dict[str, Any]) -> dict[str, Any]:
    """The pods of those parts, with HAProxy in front."""
    made = render({"haproxy": {"enabled": True}, **values})
    (test,) = made.of("Pod")
    pods = {
        part: made.one(PARTS[part], f"fleet-framehold-{part}")["spec"]["template"]["spec"]
        for part in _READ
        if part in PARTS
    }
    return {"test": test["spec"], **pods}


def by_container(spec: dict[str, Any]) -> dict[str, set[str]]:
    """The secrets that each container of a pod is told, by its name."""
    return {
        each["name"]: set(secrets_of({**spec, "containers": [each], "initContainers": []}))
        for each in [*spec.get("initContainers", []), *spec["containers"]]
    }


def test_secrets_are_files() -> None:
    """No variable of any container refers to a Secret. Each file is named as its setting. Only its reader has it."""
    for part, spec in reading({}).items():
        first = [{"FRAMEHOLD_KEYS"}] if part in _DERIVING else []
        assert list(by_container(spec).values()) == [*first, _READ[part]], part
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            variables = {each["name"]: each for each in container.get("env", [])}
            assert not any("secretKeyRef" in str(each) for each in variables.values())
            mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
            found = {name for name in ("keys", "secrets", "derived") if mounts.get(name, {}).get("readOnly")}
            folders = [mounts[name]["mountPath"] for name in sorted(found, reverse=True)]
            said = variables.get("FRAMEHOLD_SECRETS_DIR", {}).get("value", "/run/framehold")
            assert said == ":".join(folders), "HAProxy is told by a file of its own"


@pytest.mark.parametrize("as_files", [True, False], ids=["files", "variables"])
@pytest.mark.parametrize("part", sorted(_DERIVING))
def test_who_is_reached_by_clients_never_has_the_keys(part: str, as_files: bool) -> None:
    """Neither by a variable nor by a file: what it gets is in a volume in memory that its first container fills."""
    spec = reading({"auth": {"asFiles": as_files, "adminTokenKey": "", "keysKey": "the-keys"}})[part]
    first, others = spec["initContainers"][0], [*spec["initContainers"][1:], *spec["containers"]]
    held = [each["name"] for each in spec["volumes"] if "the-keys" in str(each)]
    assert held == (["keys"] if as_files else [])
    for container in others:
        assert "the-keys" not in str(container)
        assert not {"keys"} & {mount["name"] for mount in container["volumeMounts"]}
    assert "the-keys" in str(first) or "keys" in {mount["name"] for mount in first["volumeMounts"]}
    (derived,) = (each for each in spec["volumes"] if each["name"] == "derived")
    assert derived["emptyDir"]["medium"] == "Memory"
    for volume in spec["volumes"]:
        for source in volume.get("projected", {}).get("sources", []):
            assert source["secret"]["items"], "without items it brings all that the Secret has"


def test_a_router_starts_with_what_its_first_container_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As its pod runs it, but for the folders: the derived keys are all that it has of the fleet's."""
    spec = reading({})["router"]
    first, own = spec["initContainers"][0], spec["containers"][0]
    places = {"/etc/framehold/secrets": tmp_path / "mounted", "/run/framehold": tmp_path / "derived"}
    for place in places.values():
        place.mkdir()
    (places["/etc/framehold/secrets"] / "FRAMEHOLD_KEYS").write_text(KEY)
    (script,) = (word for word in first["command"] if "framehold" in word)
    folders = own["env"][0]["value"]
    for name, place in places.items():
        script, folders = script.replace(name, str(place)), folders.replace(name, str(place))
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {"PATH": path, "FRAMEHOLD_SECRETS_DIR": str(places["/etc/framehold/secrets"])}
    subprocess.run(["sh", "-ec", script], env=environment, check=True, timeout=60)
    (places["/etc/framehold/secrets"] / "FRAMEHOLD_KEYS").unlink()
    monkeypatch.setenv("FRAMEHOLD_SECRETS_DIR", folders)
    settings = RouterSettings()
    assert settings.known_keys() == (RouterKey.of(KEY.encode()),) and settings.keys == ()
