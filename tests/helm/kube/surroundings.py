"""What every pod of a cluster finds around it."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.helm.kube.env import Data
from tests.helm.kube.network import Network
from tests.helm.kube.root import Root


@dataclass(frozen=True)
class Surroundings:
    """`path`: PATH of all images; `tell`: told (pod, what happened); `clock`: seconds."""

    root: Root
    network: Network
    namespace: str
    path: str
    data: Data
    tell: Callable[[str, str], None]
    clock: Callable[[], float]
    _numbers: itertools.count[int] = field(default_factory=lambda: itertools.count(1))

    def uid(self) -> str:
        """A name that no pod had before."""
        return f"p{next(self._numbers)}"
