"""Settings of a node: `FRAMEHOLD_*` environment variables. The settings that nodes and routers have in common are in
`framehold_fleet.config`.

Each limit has a default. The error for a reached limit names its setting.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import socket
import sys
from dataclasses import replace
from typing import Any, Literal

from pydantic import ByteSize, Field, field_validator

from framehold_core.ids import is_node_id
from framehold_fleet.config import MAX_SECONDS, FleetSettings, Listed, listed
from framehold_fleet.config import load as load_settings
from framehold_fleet.members.address import address_of
from framehold_store.config import StoreConfig


class Settings(FleetSettings):
    """All settings of a node. Field `x` is read from `FRAMEHOLD_X`. Times are in seconds, sizes in bytes."""

    node_id: str = Field(default_factory=lambda: _hostname())  # noqa: PLW0108 - defined below
    advertise_url: str = ""
    lease_ttl: float = Field(5.0, gt=0.2, le=300)
    token_ttl: float = Field(600.0, gt=0, le=MAX_SECONDS)
    max_round: float = Field(300.0, gt=0, le=MAX_SECONDS)
    drain_timeout: float = Field(30.0, ge=0, le=MAX_SECONDS)
    """After SIGTERM: for how long running rounds may go on, and calls that only this process can carry on may be
    answered."""
    drain_at_least: float = Field(0.0, ge=0, le=10)
    """After SIGTERM: for how long the node goes on at least, even with nothing left to do, so that load balancers
    notice the drain first."""
    max_parked: int = Field(20_000, gt=0)
    """How many frames this node may hold. Beyond that, frames of re-entrant handlers that were parked the longest are
    evicted for new calls; if there is none, new calls are refused."""
    max_parked_per_principal: int = Field(1_000, gt=0)
    """How many calls one authenticated user may have on this node. Further calls of that user are refused."""
    max_asking_threads: int = Field(256, gt=0)
    """How many threads of handlers may wait for answers on this node. Further questions from threads fail."""
    max_sessions: int | None = Field(None, gt=0)
    """How many sessions of clients of earlier revisions this node may have. Beyond that, a client that opens one is
    refused. None: as many as half of the memory for calls holds, at most 10,000."""
    memory_limit: ByteSize | None = Field(None, gt=0)
    """Bytes (512Mi and 2GiB are understood) that this process may have resident; by default the limit of its cgroup, or
    half of the machine's memory if it has none. From 90 % on, frames of re-entrant handlers that were parked the
    longest are evicted until 80 % are reached. If there is no such frame, or beyond the limit, new calls are
    refused."""
    max_buffered: int | None = Field(None, gt=0)
    """Bytes that the requests which this node serves may hold together: their bodies, and the values that these become.
    For one more the largest that is still being received is refused. None: a quarter of the memory for calls, at most
    256 MiB."""
    server: Literal["framehold", "uvicorn"] = "framehold"
    """The HTTP server of `framehold node`. Framehold's own takes less CPU. An app with routes of its author's is served
    by uvicorn, whatever this says: they may take uploads of any size, or a WebSocket."""
    strategy: Literal["hold", "replay"] = "hold"
    """Where a call waits. `hold`: in a frame in memory. `replay`: in its token, from which any node re-enters the
    handler."""
    rehearse: bool = False
    """Drop each frame of a re-entrant handler when it asks, so that each answer replays the handler. This tests the
    author's promise that the handler is re-entrant."""
    pause_after: int = Field(3, ge=0)
    """How many processes the calls of one tool may end within ten minutes before the tool is paused. 0: it never is
    paused by itself; 1 counts as 2, since the end of one process proves nothing."""
    pickle: bool = True
    """Whether a result of `once` may be pickled if JSON can't hold it."""
    keep_code: bool = True
    """Whether the store keeps the code of re-entrant handlers, so that a call is carried on by the code that it began
    with. Without a shared store, or without `pickle`, no code is kept."""
    max_code: int = Field(1024 * 1024, gt=0)
    """The largest code of one handler, in bytes. Larger code is not kept."""
    code_modules: Listed = ()
    """Names of modules whose code is kept with that of the handlers, or with `-` in front is not, beyond the author's
    own modules."""
    max_journal_per_principal: int | None = Field(None, gt=0)
    """How many bytes the journals of one authenticated user's calls on this node may have in the store together. Beyond
    that, new calls of that user that need the store are refused, and answers that are not small. None: four times
    `max_journal`."""
    result_delay: float = Field(0.002, ge=0, le=1)
    """For how long a result of `once`, which its handler has heard, waits for the next write of its call to take it
    along. Then it is written by itself. 0: at once."""
    ordinary: bool = True
    """Whether ordinary rounds take the short path through this node. Without it each request takes the long
    one, to the same replies."""
    legacy_shim: bool = True
    """Whether a handler that returns its questions also serves clients of earlier revisions, over their live
    session."""
    max_rounds: int = Field(8, gt=0)
    """How often a handler that returns its questions is entered again within one request of a client of an earlier
    revision."""
    round_timeout: float = Field(600.0, gt=0, le=MAX_SECONDS)
    """For how long a client of an earlier revision may take for each answer, or report no progress."""
    allowed_origins: Listed = ()

    @property
    def journals_of_one(self) -> int:
        """How many bytes the journals of one user may have, in numbers."""
        return self.max_journal_per_principal or 4 * self.max_journal

    def store(self) -> StoreConfig:
        """The settings of the store."""
        return replace(super().store(), max_code=self.max_code)

    @property
    def keeps_code(self) -> bool:
        """Whether the code of handlers is kept where nodes share a store."""
        return self.keep_code and self.pickle

    @field_validator("allowed_origins", "code_modules", mode="before")
    @classmethod
    def _split_listed(cls, value: Any) -> Any:
        return listed(value)

    @field_validator("memory_limit", mode="before")
    @classmethod
    def _as_kubernetes_writes_it(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        size = value.strip().lower()
        if re.fullmatch(r"\d+(\.\d+)? ?([kmgt]i?)?b?", size) is None:
            raise ValueError("must be a number of bytes, or one like 512Mi or 2GiB")
        return f"{size}b" if size.endswith("i") else size

    @field_validator("advertise_url")
    @classmethod
    def _can_be_called(cls, value: str) -> str:
        if value and address_of(value) is None:
            raise ValueError("must be http://host:port or https://host:port, with an IPv6 host in brackets")
        return value

    @field_validator("node_id")
    @classmethod
    def _names_a_node(cls, value: str) -> str:
        if not is_node_id(value):
            raise ValueError("must be 1 to 63 letters, digits, '-' or '_'")
        return value


def load(**overrides: Any) -> Settings:
    """A node's settings from the environment. `overrides` that are not None replace them, here and for code that reads
    the environment later.

    Raises:
        ConfigError: a setting is malformed; the message names it by its environment variable.
    """
    return load_settings(Settings, **overrides)


def with_arguments(settings: Settings, **arguments: Any) -> Settings:
    """`settings` with the arguments that an author gives in code in place of their fields.

    Raises:
        ConfigError: an argument is malformed; the message names it.
    """
    return Settings(**{**settings.model_dump(exclude_unset=True), **arguments}) if arguments else settings


def workers() -> int:
    """How many worker processes the ASGI server was started with whose worker this process is; 1 if it is none, or if
    that can't be known. uvicorn, gunicorn, hypercorn and granian have the same option."""
    if multiprocessing.parent_process() is None and "gunicorn.arbiter" not in sys.modules:
        return 1
    option = re.search(r" (?:--workers[ =]|-w[ =]?)(\d+)", " ".join(["", *sys.argv[1:]]))
    named = option[1] if option else os.environ.get("WEB_CONCURRENCY") or os.environ.get("GRANIAN_WORKERS") or ""
    return int(named) if named.isdecimal() else 1


def _hostname() -> str:
    """The machine's name, with the characters that may be in a node's name."""
    name = "".join(
        char if char.isascii() and (char.isalnum() or char in "-_") else "-" for char in socket.gethostname()
    )
    return name.strip("-_")[:63] or "node"


def started_by_uv() -> bool:
    """Whether `uvx` or `uv run` started this process: they set UV, and a PATH that other shells don't have."""
    return "UV" in os.environ
