"""The model of the account of open calls. Its JSON is a contract."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from .fields import Count, Lenient, Seconds

Known = Literal["counted", "estimated", "up_to"]


class ScanView(Lenient):
    """What the last scan of the store counted. Times are in seconds since 1970 on the store's clock. Calls that are
    stuck, and calls whose token has expired, are not among these."""

    began: Seconds
    at: Seconds
    """When it ended."""
    looked: Count
    """Records that it read."""
    orphaned: Count
    """Re-entrant calls whose node was gone when the scan began."""
    handed_off: Count
    """Calls that were released by a node that was gone when the scan began."""


class FigureView(BaseModel):
    """A number of calls, and how it is known. `counted`: by the nodes, or by a scan. `estimated`: the last lease of a
    node that is gone, or does not answer, is part of it. `up_to`: calls were taken over while the scan ran, so there
    may be fewer."""

    count: Count = 0
    known: Known = "counted"
    at: Seconds | None = None
    """When it was looked up, in seconds since 1970; null if it has not been looked up yet."""
    text: str = "not looked up yet"
    """The number, how it is known and since when, in words; all that show it to people use these."""


class OpenView(BaseModel):
    """All open calls that a store or a node knows of. A call that is carried in its token alone (strategy replay) is in
    none of these figures while it waits."""

    held: FigureView = FigureView()
    """Calls whose frames are in the memory of a node: they wait there, or run."""
    asleep: FigureView = FigureView()
    """Calls without a frame whose node lives: the frame was evicted, or its round was cancelled since the client left
    or the round ran too long. The next round goes on there."""
    handed_off: FigureView = FigureView()
    """Calls that a node released when it drained, and that no node has taken over yet."""
    orphaned: FigureView = FigureView()
    """Re-entrant calls whose node is gone, and that no node has taken over yet."""
    total: Count = 0
    """The sum of the four."""
    looked: Count | None = None
    """Records that the last scan of the store read; null if no scan has ended yet."""
    lost_last_hour: Count = 0
    """Calls that were lost in the last hour: with the process that held them, or since their round was cancelled and
    their handlers are not re-entrant."""
