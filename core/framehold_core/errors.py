"""One tree of errors. Each message says what happened, what was not done, and what to do next.

FrameholdError
+-- ConfigError            a setting is missing or wrong; nothing was started
+-- ProtocolError          this process broke a rule of the core (a bug here, never a client's fault)
+-- JournalError           a stored entry can't be read
|   +-- JournalVersionError    written by a newer release
+-- DivergenceError        replay asked for something other than what was recorded
+-- SealError              a stored value's seal does not verify
+-- ValueUnreadable        a stored value whose seal verifies can't be made into an object again
+-- OnceError              an effect of `once` gave nothing that its handler could go on with
|   +-- InDoubt                it may have run, or may yet run; nobody knows
|   +-- KeyReused              its key stands for another function, or other arguments, in this call
|   +-- EffectFailed           it raised an exception that can't be stored; its class is named
|   +-- ResultNotKept          it ran, and its result can't be stored
+-- StoreError
|   +-- StoreUnavailable       the store did not answer in time
|   |   +-- StoreFull              the store has no room: it answers, and refuses what would take more
|   |   +-- StoreRefused           the store answers with an error
|   +-- NodeNameTaken          another process runs under this node's name
+-- AskError
|   +-- DuplicateAsk           two identical unkeyed questions are pending together
|   +-- NotInCall              used outside a call
+-- LimitExceeded          a limit was met; `limit` is the setting's name
    +-- NodeFull           a limit of this node, not of its user: another node may have room
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn


class FrameholdError(Exception):
    """The root of everything Framehold raises on purpose."""


class ConfigError(FrameholdError):
    """A setting is missing or wrong; the message names it. Nothing was started."""


class ProtocolError(FrameholdError):
    """An event reached a state that has no row for it, or that the protocol rules out. It is a bug in the code that
    drives the core."""


class JournalError(FrameholdError):
    """A stored journal entry can't be read; the call was not continued on guessed state."""


class JournalVersionError(JournalError):
    """A stored entry was written by a newer release; finish the roll-out or roll forward."""


class DivergenceError(FrameholdError):
    """Replay asked for something other than what was recorded; the message names both. The journal is untouched."""


class SealError(FrameholdError):
    """A stored value was not sealed by this fleet for this place; it was not opened."""


class ValueUnreadable(FrameholdError):
    """A stored value was sealed by this fleet, but can't be made into an object here: a class that moved, a pickle
    where `FRAMEHOLD_PICKLE` is off, a codec of a newer release."""


class OnceError(FrameholdError):
    """An effect under `once` gave nothing that its handler could go on with; what is recorded of it is raised again
    on replay."""


class InDoubt(OnceError):
    """The effect was intended, and no result is recorded: it may have run, or may yet run. Declare it `idempotent=True`
    where running it again under the same idempotency key is safe."""


class KeyReused(OnceError):
    """One key was given to two effects of a call; the second was not run."""


class EffectFailed(OnceError):
    """The effect raised an exception that can't be stored as it was; `kind` is its class's name."""

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message)
        self.kind = kind


class ResultNotKept(OnceError):
    """The effect ran, but its result can't be stored; it is not run again."""


class StoreError(FrameholdError):
    """The store refused or failed an operation."""


class StoreUnavailable(StoreError):
    """The store did not answer in time; whether the operation was applied is unknown, and repeating it is safe. `limit`
    says which limit of the system kept this process from asking it, if one did."""

    limit = ""


class StoreFull(StoreUnavailable):
    """The store has reached the limit on its memory: it answers, and refuses what would take more. Nothing was
    written."""


class StoreRefused(StoreUnavailable):
    """The store answers with an error, such as MISCONF or NOAUTH; `says` is its text."""

    def __init__(self, message: str, says: str) -> None:
        super().__init__(message)
        self.says = says


class NodeNameTaken(StoreError):
    """Another live process is registered under this node's name; this one must not run."""


class AskError(FrameholdError):
    """A question could not be asked; nothing was sent to the client."""


class DuplicateAsk(AskError):
    """Two identical questions without a key are pending together, so their answers could be swapped."""


class NotInCall(AskError):
    """An authoring function was used outside a call that Framehold runs."""


class LimitExceeded(FrameholdError):
    """A limit was met. `limit` is the name of the setting that raises it."""

    def __init__(self, message: str, *, limit: str) -> None:
        super().__init__(message)
        self.limit = limit


class NodeFull(LimitExceeded):
    """This node has no room for a new call. Nothing was started, and another node may have room."""


def causes(error: BaseException | None, *, first_of_groups: bool = False) -> Iterator[BaseException]:
    """`error` and the exceptions that it was made of, the outermost first. They may form a ring: each comes once. With
    `first_of_groups` the first exception of a group comes in place of the group and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if first_of_groups and isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        else:
            yield error
            error = error.__cause__ or error.__context__


def impossible(what: str) -> NoReturn:
    """Raise ProtocolError for a state that the protocol rules out. `what` says which, as a sentence without its end.

    Written as `if ...: impossible(...)`, since an `assert` is gone under `python -O`."""
    raise ProtocolError(f"{what}; nothing was done; this is a bug in the code that drives the core: report it")
