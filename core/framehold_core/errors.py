"""One tree of errors. Each message says what happened, what was not done, and what to do next.

FrameholdError
+-- ConfigError            a setting is missing or wrong; nothing was started
+-- ProtocolError          this process broke a rule of the core (a bug here, never a client's fault)
+-- JournalError           a stored entry can't be read
|   +-- JournalVersionError    written by a newer release
+-- DivergenceError        replay asked for something other than what was recorded
+-- SealError              a stored value's seal does not verify
+-- StoreError
|   +-- StoreUnavailable       the store did not answer in time
|   +-- NodeNameTaken          another process runs under this node's name
+-- AskError
|   +-- DuplicateAsk           two identical unkeyed questions are pending together
|   +-- NotInCall              used outside a call
+-- LimitExceeded          a limit was met; `limit` is the setting's name
"""

from __future__ import annotations


class FrameholdError(Exception):
    """The root of everything Framehold raises on purpose."""


class ConfigError(FrameholdError):
    """A setting is missing or wrong; the message names it. Nothing was started."""


class ProtocolError(FrameholdError):
    """An event reached a state that has no row for it: a bug in the shell that drives the core."""


class JournalError(FrameholdError):
    """A stored journal entry can't be read; the call was not continued on guessed state."""


class JournalVersionError(JournalError):
    """A stored entry was written by a newer release; finish the roll-out or roll forward."""


class DivergenceError(FrameholdError):
    """Replay asked for something other than what was recorded; the message names both. The journal is untouched."""


class SealError(FrameholdError):
    """A stored value was not sealed by this fleet for this place; it was not opened."""


class StoreError(FrameholdError):
    """The store refused or failed an operation."""


class StoreUnavailable(StoreError):
    """The store did not answer in time; whether the operation was applied is unknown, and repeating it is safe."""


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
