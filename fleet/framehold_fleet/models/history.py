"""The models of the history of a fleet. Their JSON is a contract."""

from __future__ import annotations

from dataclasses import fields
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.dataclasses import dataclass

from .events import EventView
from .fields import MAX_TEXT_CHARACTERS, Count, Lenient, Seconds, Share, Text
from .tools import ToolFigures

Range = Literal["15m", "1h", "6h", "24h"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one node, or of a fleet, in one slot of time. Rates are per second of the slot; null without two
    looks at the node. The other figures are those of its status at the end of the slot (`NodeStatus`).

    No model, which would take four times the memory: a router holds these of each node for up to 1,800 slots."""

    rounds: Seconds | None = None
    """Rounds that were answered, per second."""
    ended: Seconds | None = None
    """Calls that ended, per second."""
    failed: Seconds | None = None
    """Calls that ended and failed, per second."""
    p50: Seconds | None = None
    """Seconds from a retry to its answer: the median of the last minute."""
    p99: Seconds | None = None
    store: Seconds | None = None
    """Seconds that the store took for a write: the median of the last minute."""
    lag: Seconds | None = None
    """Seconds by which the event loop was late: the 99th percentile of the last minute."""
    busy: Share | None = None
    """The part of the last minute in which the event loop used a processor."""
    parked: Count | None = None
    running: Count | None = None
    """Calls that run, or wait for the store."""
    frames: Count | None = None
    rss: Count | None = None
    """Resident memory in bytes."""


SERIES = tuple(field.name for field in fields(Figures))


class Sample(Lenient):
    """The figures of a fleet in one slot of time, as the store keeps them."""

    nodes: dict[Text, Figures] = Field(default_factory=dict)
    fleet: Figures = Figures()
    """Of all nodes together, also of those that `nodes` leaves out."""
    tools: dict[Text, ToolFigures] = Field(default_factory=dict)
    """Of all nodes together; a tool that nobody called in this slot, and that has no parked call, is left out."""
    release: Text = ""
    """The versions of Framehold that the nodes run, and a digest of the code of their handlers."""


class HistoryQuery(BaseModel):
    """The query of the history."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    range: Range = "1h"
    node: str = Field("", max_length=MAX_TEXT_CHARACTERS)
    """Only this node; empty for the whole fleet."""
    tool: str = Field("", max_length=MAX_TEXT_CHARACTERS)
    """Only this tool, on all nodes; empty for all tools. Its series are `rounds`, `ended`, `failed` and `refused` per
    second, `p50` and `p99` of a round, `think`, the median of what users took for their answers, and `parked`."""
    each: bool = False
    """Whether the series of each node are listed, too."""


class MarkView(BaseModel):
    """Something that happened at one instant of the history. `event` is null for a deploy, which no event reports."""

    at: Seconds
    kind: Text
    """The kind of its event, or `deployed`: the version, or the code of a handler, changed on a node."""
    text: Text
    event: EventView | None = None


class HistoryView(BaseModel):
    """Series over time. Each has one value for each slot from `start` on; null where nothing is known."""

    step: int
    """Seconds of one slot."""
    start: float
    """When the first slot begins, in seconds since 1970."""
    series: dict[Text, list[float | None]]
    """By name, as in `Figures`. Of the fleet: rates, counts and bytes are sums, `p50` and `store` medians of the nodes'
    medians; `p99`, `lag` and `busy` are the highest value of any node."""
    nodes: dict[Text, dict[Text, list[float | None]]] = {}
    """The series of each node by its id, if they were asked for: at most 100, those that were there last."""
    marks: list[MarkView] = []
    """In order of time, at most 200, the latest ones."""
