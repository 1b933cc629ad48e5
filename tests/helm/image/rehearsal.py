"""Carries out a Dockerfile's steps as they are written, and starts what it describes.

The law: a stage whose text was carried out before is not carried out again, as Docker's cache has it. A process of the
image has what the image gives it, and nothing of this test's environment.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.helm.image import dockerfile, root
from tests.helm.image.root import Network

BASE = "python:3.11-slim-bookworm"
_PATH = "/usr/local/bin:/usr/local/sbin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSED = ("http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


@dataclass
class Image:
    """What a Dockerfile made: a root, and how a process of it is started."""

    root: Path
    env: dict[str, str] = field(default_factory=lambda: {"PATH": _PATH, "HOME": "/root"})
    labels: dict[str, str] = field(default_factory=dict)
    folder: str = "/"
    user: str = "0"
    entrypoint: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    signal: str = ""
    health: list[str] = field(default_factory=list)
    """The command that says whether a container is well; empty if there is none."""

    def start(
        self, network: Network, words: Sequence[str] = (), env: Mapping[str, str] | None = None
    ) -> subprocess.Popen[str]:
        """A container of it: its root read-only, as its user, with `words` in place of its CMD."""
        uid, _, gid = self.user.partition(":")
        assert uid == gid == str(root.USER), self.user
        started = root.command(
            self.root,
            [*self.entrypoint, *(words or self.command)],
            {**self.env, **(env or {})},
            self.folder,
            root.USER,
            network,
        )
        return subprocess.Popen(
            started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )


class Builder:
    """Builds images in `folder`. `images` are those that a FROM may name beside the base."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._done: dict[str, Image] = {}
        self.images: dict[str, Image] = {}

    def build(self, file: str, sources: Path, **arguments: str) -> Image:
        """What `docker build -f FILE --build-arg NAME=VALUE SOURCES` makes of that text."""
        named: dict[str, Image] = {}
        image = Image(sources)
        for stage in dockerfile.read(file, arguments):
            text = json.dumps([stage.base, stage.steps, str(sources)])
            if text not in self._done:
                self._done[text] = self._carried_out(stage, sources, named)
            image = named[stage.name] = self._done[text]
        return image

    def _carried_out(self, stage: dockerfile.Stage, sources: Path, named: Mapping[str, Image]) -> Image:
        place = self._folder / f"stage{len(self._done)}"
        if (before := self.images.get(stage.base)) is not None:
            _linked(before.root, place)
            image = Image(**{**vars(before), "root": place, "env": dict(before.env), "labels": dict(before.labels)})
        else:
            assert stage.base.partition("@")[0] == BASE
            place.mkdir()
            root.prepare(place)
            image = Image(place)
        for step in stage.steps:
            _carry_out(step, image, sources, named)
        return image


def _carry_out(step: dockerfile.Step, image: Image, sources: Path, named: Mapping[str, Image]) -> None:
    match step.word:
        case "RUN":
            _run(step.rest, image)
        case "COPY":
            _copy(step.words(), image, sources, named)
        case "WORKDIR":
            image.folder = step.rest
            _inside(image, step.rest).mkdir(parents=True, exist_ok=True)
        case "ENV":
            image.env |= step.pairs()
        case "LABEL":
            image.labels |= step.pairs()
        case "USER":
            image.user = step.rest
        case "ENTRYPOINT":
            image.entrypoint, image.command = step.words(), []
        case "CMD":
            image.command = step.words()
        case "STOPSIGNAL":
            image.signal = step.rest
        case "HEALTHCHECK":
            image.health = json.loads(step.rest.partition("CMD ")[2] or "[]")


def _run(line: str, image: Image) -> None:
    assert image.user == "0", f"RUN {line}: as {image.user}, who may write nowhere"
    words = root.command(image.root, ["/bin/sh", "-c", line], {**_index(), **image.env}, image.folder)
    done = subprocess.run(words, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, f"RUN {line}\n{done.stdout}\n{done.stderr}"


def _copy(words: Sequence[str], image: Image, sources: Path, named: Mapping[str, Image]) -> None:
    *found, target = words
    origin = sources
    if found[0].startswith("--from="):
        origin = named[found.pop(0).removeprefix("--from=")].root
    into = _inside(image, target)
    if target.endswith("/"):
        into.mkdir(parents=True, exist_ok=True)
    for name in found:
        source = origin / name.lstrip("/")
        if source.is_dir():
            _linked(source, into)
        else:
            shutil.copy(source, into)


def _linked(source: Path, target: Path) -> None:
    """The same files under another name, as layers share them: no step writes into one that is there."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, copy_function=os.link)


def _inside(image: Image, path: str) -> Path:
    return image.root / os.path.normpath(os.path.join(image.folder, path)).lstrip("/")


def _index() -> dict[str, str]:
    """Where packages come from, as this machine's pip is told: a build has that from its own settings."""
    passed = {name: value for name, value in os.environ.items() if name.lower() in map(str.lower, _PASSED)}
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, timeout=60, check=True
    )
    for line in listed.stdout.splitlines():
        name, _, value = line.partition("=")
        passed["PIP_" + name.rpartition(".")[2].replace("-", "_").upper()] = value.strip("'")
    return passed
