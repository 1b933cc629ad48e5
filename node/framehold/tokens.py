"""What a token claims, as the plaintext that the SDK's request-state boundary seals.

Every state is tagged at the handler layer, ours and the author's: otherwise an author who puts a user's text into
`request_state` could be made to mint one of ours.

    F[claims]               a call that is held: which round of which call this is. Its token shows the call's id, which
                            is compared with the sealed one
    R[claims] entry entry   strategy replay: the claims, and the whole journal
    M[claims] entry entry   an author's own state, beside what the handler learned by `once` and the like
    Aanything               an author's own state

Entries stand one on a line, as `journal.encode` wrote them, their values sealed for their call: the codec of a token
may be its author's own, and what is unpickled was sealed by us.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple

from pydantic_core import from_json

from framehold_core.ids import CallId, NodeId, is_call_id, is_node_id

from .slots import Parked

OURS, REPLAY, MARKED, AUTHORS = "F", "R", "M", "A"
VERSION = 1
_MINTED = f'{OURS}[{VERSION},"'
"""How a state begins that names a parked round."""


class Claims(NamedTuple):
    """A verified token of a held call: which round it answers, under which epoch and history, and who minted it."""

    call: CallId
    round: int
    epoch: int
    n: int
    mark: str
    node: NodeId
    boot: str


class Carried(NamedTuple):
    """A verified token of strategy replay. `code` is the digest of the handler that asked, `seed` (sealed) what its
    random values are drawn from, `instant` when its last question was asked, in seconds since the epoch; `lifetime`
    is how long each of its tokens is valid, in seconds, 0 for as long as all others."""

    call: CallId
    round: int
    epoch: int
    code: str
    seed: str
    instant: float
    lifetime: float
    entries: tuple[bytes, ...] = ()


_LATEST = 253_402_300_800.0
"""The year 10000, in seconds since the epoch: no clock says so, and no date can."""
_CARRIED = [str, int, int, str, str, float, float]


class Marked(NamedTuple):
    """An author's state (None: there was none) and what is recorded beside it: sealed for `call`, the first round's."""

    call: CallId
    state: str | None
    entries: tuple[bytes, ...] = ()


def mint(parked: Parked, node: str, boot: str) -> str:
    """The plaintext state that names a parked round."""
    at = parked.at
    # Every text in it is made of letters, digits and hyphens: nothing needs an escape.
    lifetime = f",{parked.lifetime}" if parked.lifetime else ""
    fields = f'{parked.call}",{at.round},{at.epoch},{at.n},"{at.mark}","{node}","{boot}","hold"{lifetime}]'
    return _MINTED + fields


@lru_cache(maxsize=256)
def read(state: str) -> Claims | None:
    """The claims of a plaintext state of ours, None where it is not one that this release understands. Who opens a
    token, who steers it and who carries its call on read the same state one after the other."""
    try:
        version, call, round_, epoch, n, mark, node, boot, strategy, *_ = from_json(state[len(OURS) :])
    except (ValueError, TypeError):
        return None
    names = isinstance(call, str) and is_call_id(call) and isinstance(node, str) and is_node_id(node)
    counts = type(round_) is type(epoch) is type(n) is int and min(round_, epoch, n) >= 0
    if version != VERSION or strategy != "hold" or not names or not counts:
        return None
    return Claims(CallId(call), round_, epoch, n, str(mark), NodeId(node), str(boot))


def named(state: str) -> CallId | None:
    """The call that a state names which `mint` made: of the rest of it only how it begins is looked at."""
    call, end, _ = state.removeprefix(_MINTED).partition('"')
    return CallId(call) if end and state.startswith(_MINTED) and is_call_id(call) else None


def carry(carried: Carried) -> str:
    """The plaintext state that is a whole call (strategy replay)."""
    *claims, entries = carried
    return _lines(REPLAY, claims, entries)


def carried(state: str) -> Carried | None:
    """What a state of strategy replay carries, None where it is not one that this release understands. Its entries are
    as they came: whoever decodes them refuses what is corrupt."""
    claims, entries = _read(state)
    if [type(claim) for claim in claims] != _CARRIED or not is_call_id(claims[0]):
        return None
    call, round_, epoch, code, seed, instant, lifetime = claims
    if round_ < 1 or epoch < 1 or not 0 <= instant < _LATEST:
        return None
    return Carried(CallId(call), round_, epoch, code, seed, instant, lifetime, entries)


def beside(marked: Marked) -> str:
    """The plaintext state of an author who keeps one, or none, with what the handler learned."""
    return _lines(MARKED, [marked.call, marked.state], marked.entries)


def marked(state: str) -> Marked | None:
    """An author's state as it came back, with what is recorded beside it; None where it is none of this release."""
    if state.startswith(AUTHORS):
        return Marked(CallId(""), state[len(AUTHORS) :])
    claims, entries = _read(state) if state.startswith(MARKED) else ([], ())
    if len(claims) != len(Marked._fields) - 1:
        return None
    call, own = claims
    if not isinstance(call, str) or not is_call_id(call) or not isinstance(own, str | None):
        return None
    return Marked(CallId(call), own, entries)


def lifetime(state: str) -> float | None:
    """For how many seconds the token of this state is valid, where its handler says so."""
    if state.startswith(REPLAY):
        found = carried(state.partition("\n")[0])
        return None if found is None else found.lifetime or None
    if not state.startswith(OURS) or state.endswith('"hold"]'):
        return None
    try:
        claims = from_json(state[len(OURS) :])
    except ValueError:
        return None
    return float(claims[9]) if isinstance(claims, list) and len(claims) > 9 else None


def excess(plain: str, limit: int) -> str | None:
    """What to say of a state whose token no retry could carry, where a request may have `limit` bytes; None where one
    could."""
    # As JSON, sealed, in base64; and arguments and answers come with it.
    size, room = len(json.dumps(plain)) * 4 // 3, limit // 4 * 3
    if size <= room:
        return None
    return (
        f"would make a token of {size} bytes, and it may have {room} of the {limit} of a request (FRAMEHOLD_MAX_BODY); "
        "nothing was asked; keep large results elsewhere and their names"
    )


def _lines(tag: str, claims: list[object], entries: tuple[bytes, ...]) -> str:
    head = json.dumps([VERSION, *claims], separators=(",", ":"))
    return "\n".join((tag + head, *(item.decode("ascii") for item in entries)))


def _read(state: str) -> tuple[list[Any], tuple[bytes, ...]]:
    """Claims and entries of a state with lines; no claims where it is none of this release."""
    head, *lines = state.split("\n")
    try:
        version, *claims = json.loads(head[1:])
        entries = tuple(line.encode("ascii") for line in lines)
    except (ValueError, TypeError, RecursionError):
        return [], ()
    return (claims, entries) if version == VERSION else ([], ())
