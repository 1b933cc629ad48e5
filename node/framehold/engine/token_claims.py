"""The claims in a token: the plaintext state that the SDK's request-state boundary seals.

Each state begins with a tag, Framehold's states and an author's own ones. Without a tag, an author who puts a user's
text into `request_state` could be made to create a state of Framehold's.

    F[claims]               a call that is held: which round of which call this is. Its token shows the call's id, which
                            is compared with the sealed one
    R[claims] entry entry   strategy replay: the claims, and the whole journal
    M[claims] entry entry   an author's own state, and the journal entries that its handler recorded (`once` and values)
    Aanything               an author's own state

Entries stand one on a line, as `journal.encode` wrote them. Their values are sealed for their call by Framehold, since
the codec that seals the token may be the author's own, and values may be unpickled.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any, NamedTuple, TypeGuard

import msgspec
from pydantic_core import from_json

from framehold_core.ids import CallId, NodeId, is_call_id, is_node_id

from .replies import Parked

OURS, REPLAY, MARKED, AUTHORS = "F", "R", "M", "A"
VERSION = 1
_MINTED = f'{OURS}[{VERSION},"'
"""The beginning of a state that names a parked round."""


_array = msgspec.json.Decoder(tuple[Any, ...]).decode


class Claims(NamedTuple):
    """The claims of a verified token of a held call: the round that it answers, the epoch, the number of journal
    entries (`n`), the history (`mark`), the node and boot that made it, and the seal of the head of its record. A
    record with another head is not that of the call (docs/protocol.md, rule 22)."""

    call: CallId
    round: int
    epoch: int
    n: int
    mark: str
    node: NodeId
    boot: str
    head: str


def is_of_a_call(state: Any) -> TypeGuard[str]:
    """Whether a state is that of a call of Framehold's, and not an author's."""
    return isinstance(state, str) and state.startswith((OURS, REPLAY))


class Carried(NamedTuple):
    """The content of a verified token of strategy replay. `code` is the digest of the handler that asked. `seed` is the
    seed of its random values (sealed, base64). `instant` is when its last question was asked, in seconds since 1970.
    `lifetime` is for how many seconds each of its tokens is valid, 0 for the default. `entries` is the encoded
    journal."""

    call: CallId
    round: int
    epoch: int
    code: str
    seed: str
    instant: float
    lifetime: float
    entries: tuple[bytes, ...] = ()


_MAX_INSTANT = 253_402_300_800.0
"""The year 10000, in seconds since 1970. A `datetime` can't hold it."""
_CARRIED = [str, int, int, str, str, float, float]


class SealedState(NamedTuple):
    """An author's state, None if there was none, and the encoded entries recorded beside it. They are sealed for
    `call`, the id of the first round."""

    call: CallId
    state: str | None
    entries: tuple[bytes, ...] = ()


def mint(parked: Parked, node: str, boot: str) -> str:
    """The plaintext state that names a parked round."""
    at = parked.at
    # Every text in it is made of letters, digits and hyphens: nothing needs an escape.
    lifetime = f",{parked.lifetime}" if parked.lifetime else ""
    where = f'{parked.call}",{at.round},{at.epoch},{at.position},"{at.round_history}"'
    return f'{_MINTED}{where},"{node}","{boot}","{parked.head}","hold"{lifetime}]'


def read_once(state: str) -> Claims | None:
    """The claims of a plaintext state of a held call; None if this release does not understand it."""
    try:
        version, call, round_, epoch, n, mark, node, boot, head, strategy, *_ = _array(state[len(OURS) :])
    except (ValueError, TypeError, RecursionError):
        return None
    names = isinstance(call, str) and is_call_id(call) and isinstance(node, str) and is_node_id(node)
    counts = type(round_) is type(epoch) is type(n) is int and min(round_, epoch, n) >= 0
    if version != VERSION or strategy != "hold" or not names or not counts:
        return None
    return Claims(CallId(call), round_, epoch, n, str(mark), NodeId(node), str(boot), str(head))


read = lru_cache(maxsize=256)(read_once)
"""`read_once`, cached: on the long path one request reads the same state several times, to open its token, to route it
and to continue its call."""


def named(state: str) -> CallId | None:
    """The call id in a state that `mint` made, read from its beginning; None for any other state."""
    call, end, _ = state.removeprefix(_MINTED).partition('"')
    return CallId(call) if end and state.startswith(_MINTED) and is_call_id(call) else None


def carry(carried: Carried) -> str:
    """The plaintext state that holds a whole call (strategy replay)."""
    *claims, entries = carried
    return _lines(REPLAY, claims, entries)


def carried(state: str) -> Carried | None:
    """The content of a state of strategy replay; None if this release does not understand it. Its entries are not
    checked here: decoding them refuses corrupt ones."""
    claims, entries = _read(state)
    if [type(claim) for claim in claims] != _CARRIED or not is_call_id(claims[0]):
        return None
    call, round_, epoch, code, seed, instant, lifetime = claims
    if round_ < 1 or epoch < 1 or not 0 <= instant < _MAX_INSTANT:
        return None
    return Carried(CallId(call), round_, epoch, code, seed, instant, lifetime, entries)


def beside(marked: SealedState) -> str:
    """The plaintext state with an author's own state, if any, and the entries that the handler recorded."""
    return _lines(MARKED, [marked.call, marked.state], marked.entries)


def marked(state: str) -> SealedState | None:
    """An author's state with the entries recorded beside it; None if this release does not understand it."""
    if state.startswith(AUTHORS):
        return SealedState(CallId(""), state[len(AUTHORS) :])
    claims, entries = _read(state) if state.startswith(MARKED) else ([], ())
    if len(claims) != len(SealedState._fields) - 1:
        return None
    call, own = claims
    if not isinstance(call, str) or not is_call_id(call) or not isinstance(own, str | None):
        return None
    return SealedState(CallId(call), own, entries)


def lifetime(state: str) -> float | None:
    """For how many seconds the token of this state is valid; None if its handler sets no lifetime."""
    if state.startswith(REPLAY):
        found = carried(state.partition("\n")[0])
        return None if found is None else found.lifetime or None
    if not state.startswith(OURS) or state.endswith('"hold"]'):
        return None
    try:
        found = from_json(state[len(OURS) :])[10]
    except (ValueError, TypeError, LookupError):
        return None
    return float(found) if type(found) in (int, float) and 0 < found < _MAX_INSTANT else None


def excess(plain: str, limit: int) -> str | None:
    """The second half of an error message for a state whose token is too large for a request of `limit` bytes; None if
    it fits."""
    # The token is JSON, sealed and in base64. A quarter of the request is left for arguments and answers.
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
    """The claims and entries of a state with lines; no claims if this release does not understand it."""
    head, *lines = state.split("\n")
    try:
        version, *claims = json.loads(head[1:])
        entries = tuple(line.encode("ascii") for line in lines)
    except (ValueError, TypeError, RecursionError):
        return [], ()
    return (claims, entries) if version == VERSION else ([], ())
