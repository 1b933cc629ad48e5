"""What stands in for images: the programs that are installed here, under the names that they have in theirs."""

from __future__ import annotations

import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.helm.kube.root import Root

_SYSTEM = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NAMES = {"valkey-server": "redis-server", "valkey-cli": "redis-cli"}


@dataclass(frozen=True)
class Image:
    """What an image says of its containers. `stop`: what ends them in good order."""

    stop: signal.Signals = signal.SIGTERM
    folder: str = "/"


_KNOWN = {
    "framehold/node": Image(folder="/srv"),
    "registry.example/trials": Image(folder="/srv"),
    "framehold/router": Image(folder="/srv"),
    "haproxy": Image(stop=signal.SIGUSR1),
    "valkey/valkey": Image(folder="/data"),
}


def image(reference: str) -> Image:
    """What stands in for an image."""
    name = reference.partition("@")[0]
    head, _, tag = name.rpartition(":")
    return _KNOWN[head if head and "/" not in tag else name]


def install(root: Root) -> str:
    """Put the programs that have another name there; PATH of every image."""
    shims = root.path / "opt/programs"
    shims.mkdir(parents=True)
    for name, program in _NAMES.items():
        found = shutil.which(program)
        assert found, f"{program} is not installed: run tests/system_packages.sh"
        shim = shims / name
        shim.write_text(f'#!/bin/sh\nexec {found} "$@"\n')
        shim.chmod(0o755)
    return f"{Path(sys.prefix) / 'bin'}:/opt/programs:{_SYSTEM}"
