"""What a frame needs from outside: from the node that holds it, and from the request that carries its round.

The engine implements `FrameHost`; the `sdk` package implements `RoundCarrier`. A frame imports neither.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from framehold_core.call import Phase
from framehold_core.ids import CallId
from framehold_core.journal import Draft, EntryLane

from .asking_threads import AskingThreads
from .asks import Question
from .entropy import Entropy
from .logged_call import Logged
from .payloads import Payloads
from .rebuild import Rebuild


class RoundCarrier(Protocol):
    """The request of a round: where the frame's notifications go, and what its client can answer. `variables` is the
    context that the request came with."""

    variables: contextvars.Context
    handler_context: contextvars.Context | None
    """The context of the handler that runs in this round. The frame sets it; the request reads it when it leaves."""
    ending: asyncio.Task[None] | None
    """The handler of this round, if it is cancelled and had not ended when that was decided. The request leaves after
    it."""
    came: float
    """When the request reached this process, in seconds since 1970. It may have waited for a dead node's lease."""

    def taken_over(self) -> None:
        """This node took the call over from a process that is gone."""

    @property
    def may_be_passed_on(self) -> bool:
        """Whether this node may still pass the request on to a node that need not hold its call."""
        ...

    def passed_on(self, address: str) -> None:
        """The request goes to such a node, which has this address. It is not passed on so again."""

    def runs_kept_code(self) -> None:
        """The handler of the call runs kept code, and not the present code."""

    def refusal(self, question: Question) -> object | None:
        """The outcome that ends the call if this client can't be asked `question`; None if it can."""


class RunningFrame(Logged, Protocol):
    """A frame, as its effects, its recorded values and the tasks of its handler see it. `task` is the handler's own
    task, None before it runs; `branches` says whether the handler has started another one."""

    task: asyncio.Task[None] | None
    branches: bool
    dead: bool
    round: int
    replay: Rebuild | None

    async def check_allowed(self, what: str) -> None:
        """Raise AskError or CancelledError if the running code may not do `what`; see `Frame.check_allowed`."""

    def run_on_loop(self, run: Callable[[], Any]) -> Any:
        """Call `run` on the handler's loop and return its result."""

    def lane(self) -> EntryLane:
        """MAIN if the handler's own task runs, SIDE for a task that it started."""

    def replayed(self, read: Callable[[Rebuild], Any]) -> Any:
        """Call `read` with the journal that is replayed and return its result. Raises CancelledError if it fails."""

    def hears_at_once(self, key: str) -> bool:
        """Whether a recorded result is heard at once; see `Frame.hears_at_once`."""
        ...

    def hear(self, delivery: Callable[[], None]) -> None:
        """Deliver something to the handler when it has settled; see `Frame.hear`."""

    def note_wait(self) -> None:
        """The running task is about to wait for an effect; see `Frame.note_wait`."""

    def settle(self) -> None:
        """Start the turn counter again that closes the round's set of questions; see `Frame.settle`."""


class FrameHost(Protocol):
    """The engine that holds a frame: the journal of its call, what it takes to make entries, and what is reported."""

    @property
    def payloads(self) -> Payloads:
        """Seals and opens values of entries."""

    @property
    def entropy(self) -> Entropy:
        """The source of recorded values."""

    @property
    def drops(self) -> bool:
        """Whether the frame is dropped after each round."""

    @property
    def call_id(self) -> CallId:
        """The id of the call."""

    def noted(self, drafts: tuple[Draft, ...]) -> None:
        """Record entries; they are sent with the next write."""

    def intended(self, key: str, draft: Draft | None) -> None:
        """The effect whose key has the digest `key` is to run. Record `draft`, its intent, if it needs one."""

    def resulted(self, key: str, draft: Draft) -> None:
        """Record the result of the effect whose key has the digest `key`."""

    def flush(self) -> None:
        """Send the results now that wait for the next write."""

    def may_run(self) -> bool:
        """Whether this node's lease is valid now, so that an effect may run."""

    def admit(self, what: str) -> None:
        """Raise LimitExceeded if the journal is too long for one more entry. `what` names it for the error."""

    def keeps(self, size: int) -> bool:
        """Whether the journal takes a result of `size` bytes."""

    def shield(self, effect: Coroutine[Any, Any, None], context: contextvars.Context) -> asyncio.Task[None]:
        """Run an effect in a task that no cancellation of a request ends."""

    @property
    def asking_threads(self) -> AskingThreads:
        """The threads of this node's handlers that wait for answers."""

    def log_fields(self, frame: Any) -> Mapping[str, Any]:
        """The fields of a log line of `frame`, which may have been dropped."""

    def phase(self) -> Phase:
        """The phase of the call."""

    def asked(self, asks: tuple[Draft, ...]) -> None:
        """The handler waits for the answers to these questions."""

    def refused(self, outcome: object) -> None:
        """The client can't be asked: the call ends with `outcome`."""

    def rebuilt(self) -> None:
        """The frame stands where its journal ends."""

    def replay_failed(self, error: Exception, outcome: object = None) -> None:
        """The frame can't be rebuilt, because of `error`; its handler has ended with `outcome`, if it has ended."""

    def ended(self, frame: Any, outcome: object) -> None:
        """The handler of `frame` has ended with `outcome`."""
