"""The images of others that a release names, each by its digest: what a tag leads to may change.

`make version` asks the registry for the digest of each tag, and writes it behind the tag wherever the tag stands.
`make release` makes nothing while one has none."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from release import Refused

_CHART = ("helm/framehold/values.yaml", "helm/framehold/README.md", "helm/framehold/Chart.yaml")
IMAGES: dict[str, tuple[str, ...]] = {
    "haproxy:3.2-alpine": _CHART,
    "python:3.11-slim-bookworm": ("node/Dockerfile", "router/Dockerfile", "loadtest/Dockerfile"),
    "valkey/valkey:9.1.2-alpine": (*_CHART, "compose.yaml"),
}
"""Each image, and the files that name its tag."""
FILES = sorted({name for names in IMAGES.values() for name in names})
_PLACES = [(image, name) for image, names in IMAGES.items() for name in names]


def asked(root: Path, ask: Callable[[str], str]) -> dict[str, str]:
    """The digest of each image, as `ask` says it.

    Raises:
        Refused: a digest is not to be had, or a file does not name its image."""
    for image, name in _PLACES:
        if not _digests(root, image, name):
            raise Refused(f"{name} does not name {image}; nothing was written; say in release/images.py what it names")
    return {image: ask(image) for image in IMAGES}


def write(root: Path, digests: Mapping[str, str]) -> None:
    """Write the digest of each image behind its tag, in place of another one."""
    for image, name in _PLACES:
        tag, text = image.partition(":")[2], (root / name).read_text("utf-8")
        (root / name).write_text(_stated(tag).sub(f"{tag}@{digests[image]}", text), "utf-8")


def check(root: Path) -> None:
    """See that each image is named by its digest.

    Raises:
        Refused: one is named by its tag alone."""
    bare = [f"{image} in {name}" for image, name in _PLACES if "" in (_digests(root, image, name) or [""])]
    if bare:
        raise Refused(f"without a digest: {', '.join(bare)}; nothing was built; `make version` writes the digests")


def _digests(root: Path, image: str, name: str) -> list[str]:
    """What stands behind each tag of the image in a file: a digest, or nothing."""
    return _stated(image.partition(":")[2]).findall((root / name).read_text("utf-8"))


def _stated(tag: str) -> re.Pattern[str]:
    return re.compile(rf"(?<=[:` ]){re.escape(tag)}(@sha256:[0-9a-f]{{64}})?(?=[`\s])")
