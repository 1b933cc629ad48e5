"""The replies that the engine gives to requests. The `sdk` package makes responses of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from framehold_core import effects as fx
from framehold_core.ids import CallId, NodeId

Questions = tuple[tuple[str, dict[str, Any]], ...]
"""Questions as the client gets them, each with its key. For a few questions a tuple takes a third less memory than a
mapping."""


class Parked(NamedTuple):
    """The reply with questions for the client, by key. `at` has the round, the epoch and the position that the token
    must name. `state` is the plaintext of a token that holds the whole call (strategy replay), else empty. `lifetime`
    is for how many seconds the token is valid, 0 for the default. `head` is the seal of the head of its record."""

    questions: dict[str, dict[str, Any]]
    call: CallId
    at: fx.Questions
    state: str = ""
    lifetime: float = 0.0
    head: str = ""


class Ended(NamedTuple):
    """The reply that ends the call. The `sdk` package made its `outcome`."""

    outcome: object


class Elsewhere(NamedTuple):
    """No reply here: another node holds the call. `address` is the URL of that node, empty if not known."""

    node: NodeId
    address: str


Answer = Parked | Ended | Elsewhere | fx.Refusal
