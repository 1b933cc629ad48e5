"""What a handler may call wherever it is: functions that find the present call by themselves."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar, overload
from uuid import UUID

from mcp.server.elicitation import ElicitationResult, elicit_with_validation
from mcp.server.session import ServerSession
from mcp_types import RequestId
from pydantic import BaseModel

from framehold_core.errors import NotInCall

from .chance import Chance
from .frames import Frame
from .learned import Learned
from .session import FrameSession
from .unframed import Unframed
from .witness import misused, witness

ModelT = TypeVar("ModelT", bound=BaseModel)
ResultT = TypeVar("ResultT")


class Present(NamedTuple):
    """The call that the running code belongs to. `request_id` is that of its request on revisions before 2026-07-28,
    where there is no frame: `unframed` is what such a call keeps for as long as it runs."""

    session: ServerSession
    request_id: RequestId | None
    frame: Frame | None
    unframed: Unframed | None = None

    def learning(self) -> Learned | Unframed:
        """Where the call keeps what it learns."""
        found = self.unframed if self.frame is None else self.frame.learned
        assert found is not None, "a call has a frame, or keeps things without one"
        return found


current: ContextVar[Present | None] = ContextVar("framehold_call", default=None)
"""The present call."""


def present(what: str) -> Present:
    """The present call, for what is done in its name: `what` says it.

    Raises:
        NotInCall: there is none.
    """
    found = current.get()
    if found is None:
        raise misused(
            NotInCall(
                f"{what} was used outside a call; nothing was asked or run; call it from a tool, prompt or resource of "
                "a server that went through framehold.attach or framehold.asgi"
            )
        )
    return found


async def ask(key: str, message: str, schema: type[ModelT]) -> ElicitationResult[ModelT]:
    """Ask the user, under a key of your own: `ctx.elicit` with a name.

    Use it where two questions may read the same and be pending together, and where a journal should be readable.

    Args:
        key: names the question within its call, e.g. "seat"; unique among those pending together.
        message: what the user reads.
        schema: a pydantic model of primitive fields.

    Returns:
        What `ctx.elicit` returns: an accepted elicitation with `data`, a declined or a cancelled one.

    Raises:
        NotInCall: there is no call here: `ask` was used outside a tool, prompt or resource, or its server isn't
        attached. DuplicateAsk: a question with this key is pending already. ValueError: the user accepted with
        content that does not match `schema`.
    """
    found = present(f"framehold.ask({key!r})")
    session = found.session
    if isinstance(session, FrameSession):
        session = session.keyed(key)
    return await elicit_with_validation(session, message, schema, found.request_id)


@overload
async def once(
    key: str, fn: Callable[..., Awaitable[ResultT]], *args: Any, idempotent: bool = False, **kwargs: Any
) -> ResultT: ...
@overload
async def once(
    key: str, fn: Callable[..., ResultT], *args: Any, idempotent: bool = False, **kwargs: Any
) -> ResultT: ...
async def once(key: str, fn: Callable[..., Any], *args: Any, idempotent: bool = False, **kwargs: Any) -> Any:
    """Run an effect at most once per call: `await framehold.once("charge", charge, order, amount=5)`.

    Its intent is recorded first, then it runs, then its result is recorded. A handler that is entered again, after a
    crash or an eviction, is given the recorded result, or has the recorded exception raised, and nothing runs. Under
    strategy replay a client can branch a call's history: then it is once per branch, with one idempotency key for all.

    Args:
        key: names the effect within its call, e.g. "charge"; in a loop, one for each turn. The same key with the same
            function and arguments is the same effect: it is not run again.
        fn: a coroutine function, or any other, which is called in a thread. It may not ask, nor use `once`.
        args, kwargs: what it is called with.
        idempotent: running it a second time is safe where nobody knows whether it ran, as it is where the other side
            knows the `idempotency_key`.

    Returns:
        What `fn` returned, as it is stored: JSON where that comes back equal, else a pickle. So it is a copy.

    Raises:
        InDoubt: its intent is recorded and no result, and it is not `idempotent`; nothing was run now.
        KeyReused: `key` stands for another effect of this call. ResultNotKept: it ran, but its result can't be
        stored, or is larger than `FRAMEHOLD_MAX_VALUE`. EffectFailed: it raised what can't be stored as it was.
        LimitExceeded: the journal has reached `FRAMEHOLD_MAX_JOURNAL`; nothing was run. NotInCall, AskError: not
        here. Else whatever `fn` raised.
    """
    if not (key and isinstance(key, str)):
        why = f"framehold.once: its key must be a text that is not empty, not {key!r}; nothing was run"
        raise misused(TypeError(why))
    if not callable(fn):
        why = (
            f"framehold.once({key!r}): its second argument must be a function, not {type(fn).__name__}; once ran "
            f"nothing, but if this is what a call gave, that has run already; write once({key!r}, function, *arguments)"
        )
        raise misused(TypeError(why))
    learned = present(f"framehold.once({key!r})").learning()
    return await learned.once(key, fn, args, kwargs, idempotent)


def idempotency_key(key: str) -> str:
    """A text (32 hex digits) that is the same for `key` in each run of this call, on whichever node, and for no other:
    for systems that take one, so that an effect which runs twice counts once.

    Raises:
        NotInCall: there is no call here.
    """
    origin = present(f"framehold.idempotency_key({key!r})").learning().origin
    return hashlib.sha256(f"framehold idempotency 1\n{origin}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def now(name: str | None = None) -> datetime:
    """The time in UTC, recorded: a handler that is entered again is told the same. Under strategy replay it is when the
    last question was asked, or the call began.

    Args:
        name: names the value where branches of a gather draw some, else the how-manieth it is does.

    Raises:
        NotInCall: there is no call here.
    """
    return datetime.fromtimestamp(_value("now", name, lambda chance, key: chance.now()), UTC)


def uuid4(name: str | None = None) -> UUID:
    """A random UUID, recorded. `name` and errors as for `now`."""
    return UUID(_value("uuid4", name, lambda chance, key: str(UUID(bytes=chance.draw(key), version=4))))


def random(name: str | None = None) -> float:
    """A random number from 0.0 up to but without 1.0, recorded. `name` and errors as for `now`."""
    number: float = _value("random", name, lambda chance, key: (int.from_bytes(chance.draw(key)[:7]) >> 3) / (1 << 53))
    return number


def _value(kind: str, name: str | None, draw: Callable[[Chance, str], Any]) -> Any:
    learned, watching = present(f"framehold.{kind}()").learning(), witness.get()
    if watching is None:
        return learned.value(kind, name, draw)
    return learned.value(kind, name, lambda _, key: draw(watching.chance, key))
