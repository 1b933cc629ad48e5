"""What the answers of the API are made of, and what a request for one brings along."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from types import MappingProxyType
from typing import NamedTuple, Protocol

from pydantic import BaseModel

from framehold_store.base import Store

from ..departures import Departures
from ..envelope import Facts
from ..membership import Fleet
from ..placement import Placement
from ..ring import Change
from ..survey import Survey
from .about_nodes import ErrorView
from .ask import Asker
from .chronicles import Chronicles

VERSION = metadata.version("framehold")


class Retries(Protocol):
    """Of the retries since this router began: those that the node which was sent to served, and the others."""

    @property
    def hits(self) -> int: ...

    @property
    def misses(self) -> int: ...


@dataclass(frozen=True)
class Sources:
    """Where a router's API takes its answers from. `place` says where a request would be sent now, and changes nothing;
    `retries` is None where nothing is counted, `change` is the ring's last one; `report` is the path of the measured
    trade-off, empty where there is none; `clock` gives seconds since 1970."""

    fleet: Callable[[], Fleet]
    store: Store
    asker: Asker
    survey: Survey
    chronicles: Chronicles
    departures: Departures = field(default_factory=Departures)
    place: Callable[[Facts], Placement | None] = lambda facts: None
    retries: Retries | None = None
    change: Callable[[], Change | None] = lambda: None
    report: str = ""
    clock: Callable[[], float] = time.time


class Asked(NamedTuple):
    """A request that was found fit: the parts of its path, its query and its body, as their models read them, and its
    headers."""

    path: Mapping[str, str]
    query: BaseModel | None = None
    body: BaseModel | None = None
    headers: Mapping[str, str] = MappingProxyType({})


class Refused(Exception):
    """There is no answer but this one: what happened, what was not done, what to do."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.view = ErrorView(error=text)
