"""What the core wants done. A shell performs each effect in order and feeds what came of it back as an event.

The ordering contract: a `Respond` is given out only after the write that makes it true was acknowledged (I3), and a
`Go` only after its intent was. The core sees to it by the order of its steps; a shell must not reorder.
"""

from __future__ import annotations

from enum import StrEnum
from math import inf

from .ending import Ending
from .events import Answer
from .ids import Incarnation, NodeId, Waiter
from .journal import Draft, Entry
from .requests import Answered, Done, Evidence, Seen
from .value import Value


class Op(StrEnum):
    """The kinds of writes; the text is the name of the store's script."""

    PARK = "commit"
    INTEND = "intent"
    RESULT = "result"
    FINISH = "finish"
    CLAIM = "claim"
    VERIFY = "verify"
    HEAL = "heal"
    RELEASE = "release"


class Write(Value):
    """Send one write; answered by `Acked`, `Claimed`, `WriteRefused` or `StoreDown`. The same value may be sent again:
    the shell must then send the same bytes. `drafts` are appended at the call's position; `asks` are the questions of
    the round that a PARK begins, `results` are the effects whose results are among the drafts (a FINISH has no drafts,
    and names them alone). `key` is the effect that waits for the acknowledgement: of an INTEND to run, of a RESULT to
    hand its result out. `ending` is how the call ends by a FINISH, `kept` says of a CLAIM that kept code will be
    entered."""

    op: Op
    drafts: tuple[Draft, ...] = ()
    asks: tuple[Draft, ...] = ()
    answered: Answered | None = None
    key: str = ""
    results: tuple[Done, ...] = ()
    outcome: object = None
    ending: Ending | None = None
    seen: Seen | None = None
    evidence: Evidence | None = None
    incarnation: Incarnation | None = None
    kept: bool = False


class Lookup(Value):
    """Read the record; answered by `Found` or `StoreDown`."""


class Run(Value):
    """Enter the handler, feeding it the recorded `entries` first (none: a fresh call)."""

    epoch: int
    entries: tuple[Entry, ...] = ()


class Deliver(Value):
    """Hand these answers to the asks that wait for them."""

    answers: tuple[Answer, ...]


class Go(Value):
    """The effect of `once` may run: its intent is durable, or it needs none and all that the handler has learned is
    durable; and the window is open."""

    key: str


class Kept(Value):
    """Hand the result of `once` to the handler. It may not be durable yet."""

    key: str


class Recorded(Value):
    """The results of these effects are durable: what the handler says of them may leave the node."""

    keys: tuple[str, ...]


class RaiseInDoubt(Value):
    """Raise `errors.InDoubt` in the handler: the effect of `once` must not run. The record holds an intent of its key
    already, or other answers for its round."""

    key: str


class Cancel(Value):
    """Cancel the frame: nothing that it does from now on is heard."""

    cause: str


class Reason(StrEnum):
    """Why a request gets neither questions nor an outcome."""

    CONFLICT = "conflict"
    ALREADY_ANSWERED = "already-answered"
    LOST = "lost"
    FORGOTTEN = "forgotten"
    """The store lost the call, or the round that the token proves, and no live frame can restore it."""
    STUCK = "stuck"
    DIVERGED = "diverged"
    UNAVAILABLE = "unavailable"
    NOT_TAKEN = "not-taken"
    """This node takes no new call at present: nothing was started, and another node may take it (rule 9)."""
    OVERRAN = "overran"
    UNREADABLE = "unreadable"
    TOO_LARGE = "too-large"
    PAUSED = "paused"
    """The tool is paused: nothing was started."""
    WAITS = "waits"
    """The tool is paused: the call waits where it is."""


class Questions(Value):
    """The questions of the current round, under a fresh token that names `round_history`.

    The token is valid for `lasts` seconds at most. A round that is asked again keeps its end, since its record was not
    written again (docs/protocol.md, rule 17, decision 014)."""

    round: int
    epoch: int
    position: int
    round_history: str
    lasts: float = inf


class Outcome(Value):
    """What the handler returned or raised: `value`, or `sealed` where it was read from a tombstone, sealed for
    `position`. A record that only says that its call is done has an empty one, which nobody can open."""

    value: object = None
    sealed: bytes | None = None
    position: int = 0


class Refusal(Value):
    """Neither questions nor an outcome. `round` is the last round that was asked, `detail` says what is known."""

    reason: Reason
    round: int = 0
    detail: str = ""


class Respond(Value):
    """Give one waiting request its response."""

    waiter: Waiter
    response: Questions | Outcome | Refusal


class Relay(Value):
    """Another node holds the call: pass the request of this waiter on to it."""

    waiter: Waiter
    node: NodeId


class Ungated(Value):
    """An outcome leaves before its commit, by the exception of rule 1: count it."""


class Forget(Value):
    """Nothing of this call is left here. `ending` is how the call ended; None where it may go on, here or elsewhere.
    `open_until` is until when the record stays open that this node owns and has no frame of any more, in seconds on the
    node's clock; 0 where it leaves none. It is for the account of open calls alone."""

    ending: Ending | None = None
    open_until: float = 0.0


Effect = (
    Write | Lookup | Run | Deliver | Go | Kept | Recorded | RaiseInDoubt | Cancel | Respond | Relay | Ungated | Forget
)
