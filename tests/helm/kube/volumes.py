"""A pod's volumes, as folders that are mounted where its containers want them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.helm.kube.env import Data, MissingReference
from tests.helm.kube.root import Root


class Mount(NamedTuple):
    """A folder or file, and where a container finds it."""

    source: Path
    target: str
    read_only: bool = False


class Volumes:
    """What the pod called `name` mounts. `uid` names this pod among all of that name."""

    def __init__(self, root: Root, name: str, uid: str, data: Data) -> None:
        self._root, self._name, self._uid, self._data = root, name, uid, data
        self._made: dict[str, Path] = {}

    def make(self, spec: Mapping[str, Any], claims: list[Mapping[str, Any]]) -> None:
        """Make them all. A claim's folder outlives the pod.

        Raises:
            MissingReference: one is of what is not there."""
        for claim in claims:
            name = claim["metadata"]["name"]
            self._made[name] = self._root.folder("claims", f"{name}-{self._name}", mode=0o777)
        for volume in spec.get("volumes", []):
            self._made[volume["name"]] = self._folder(volume)

    def mounts(self, container: Mapping[str, Any]) -> Iterator[Mount]:
        """What one container wants mounted."""
        for wanted in container.get("volumeMounts", []):
            source = self._made[wanted["name"]] / wanted.get("subPath", "")
            yield Mount(source, wanted["mountPath"], wanted.get("readOnly", False))

    def remove(self) -> None:
        """Forget what belonged to this pod alone."""
        shutil.rmtree(self._root.folder("pods", self._uid), ignore_errors=True)

    def _folder(self, volume: Mapping[str, Any]) -> Path:
        name, ((kind, text),) = volume["name"], ((key, value) for key, value in volume.items() if key != "name")
        if kind == "hostPath":
            return Path(text["path"])
        made = self._root.folder("pods", self._uid, name, mode=0o777)
        if kind == "emptyDir":
            return made
        if kind not in ("secret", "configMap"):
            raise MissingReference(f"this rig has no volumes of kind {kind}")
        self._fill(made, "Secret" if kind == "secret" else "ConfigMap", text)
        made.chmod(0o755)
        return made

    def _fill(self, folder: Path, kind: str, text: Mapping[str, Any]) -> None:
        wanted = text.get("secretName") or text["name"]
        found = self._data(kind, wanted)
        if found is None and not text.get("optional"):
            raise MissingReference(f"{kind} {wanted}")
        items = text.get("items") or [{"key": key, "path": key} for key in found or {}]
        for item in items:
            file = folder / item["path"]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes((found or {})[item["key"]])
            file.chmod(0o644)
