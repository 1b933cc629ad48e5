"""Functions that a handler may call anywhere in its code: they find the present call by themselves."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar, overload
from uuid import UUID

from mcp.server.elicitation import ElicitationResult, elicit_with_validation
from pydantic import BaseModel

from .. import json_text
from ..frame.entropy import Entropy
from ..frame.rehearsal import misused, rehearsal_observer
from ..sdk.present_call import Present, current, present
from ..sdk.session import FrameSession
from ..sdk.unawaited import unawaited

ModelT = TypeVar("ModelT", bound=BaseModel)
ResultT = TypeVar("ResultT")


def _check_key(function: str, key: object, *, is_sent: bool) -> None:
    """Raise TypeError if `key` is none. That of a question is sent to the client, as UTF-8."""
    if not (key and isinstance(key, str)):
        must = "a text that is not empty"
    elif is_sent and not json_text.is_unicode(key):
        must = "a text that UTF-8 can carry"
    else:
        return
    done = "asked" if is_sent else "run"
    raise misused(TypeError(f"framehold.{function}: its key must be {must}, not {key!r}; nothing was {done}"))


async def ask(key: str, message: str, schema: type[ModelT]) -> ElicitationResult[ModelT]:
    """Ask the user, under a key of your own: `ctx.elicit` with a name.

    Use it where two questions with the same text may be pending together, or to make a journal easy to read.

    Args:
        key: names the question within its call, e.g. "seat"; unique among those pending together. A text that is not
            empty.
        message: the text that the user reads.
        schema: a pydantic model of primitive fields.

    Returns:
        The result of `ctx.elicit`: an accepted elicitation with `data`, a declined one, or a cancelled one.

    Raises:
        NotInCall: there is no call here: `ask` was used outside a tool, prompt or resource, or its server isn't
            attached.
        DuplicateAsk: a question with this key is pending already.
        ValueError: the user accepted with content that does not match `schema`.
        TypeError: the arguments are in another order, `key` is no such text, or `schema` is no model.
    """
    if not isinstance(message, str):
        raise misused(
            TypeError(
                f"framehold.ask(key, message, schema): the message must be a text, not {message!r:.80}; nothing was "
                "asked; the key comes first, then the message, then the model"
            )
        )
    _check_key("ask", key, is_sent=True)
    found = present(f"framehold.ask({key!r})")
    session = found.session
    if isinstance(session, FrameSession):
        session = session.keyed(key)
    return await elicit_with_validation(session, message, schema, found.request_id)


@overload
async def once(
    key: str, fn: Callable[..., Awaitable[ResultT]], /, *args: Any, idempotent: bool = False, **kwargs: Any
) -> ResultT: ...
@overload
async def once(
    key: str, fn: Callable[..., ResultT], /, *args: Any, idempotent: bool = False, **kwargs: Any
) -> ResultT: ...
def once(
    key: str, fn: Callable[..., Any], /, *args: Any, idempotent: bool = False, **kwargs: Any
) -> Coroutine[Any, Any, Any]:
    """Run an effect at most once per call: `await framehold.once("charge", charge, order, amount=5)`.

    First the intent is recorded, then the effect runs. Its result is recorded with the next write of the call, and
    before a client hears anything that may rest on it. When the handler is entered again,
    after a crash or an eviction, `once` returns the recorded result, or raises the recorded exception, and nothing
    runs. Under strategy replay a client can branch the history of a call: then the effect runs at most once per branch,
    with the same idempotency key in all branches.

    Args:
        key: names the effect within its call, e.g. "charge"; in a loop, one for each turn. The same key with the same
            function and arguments is the same effect: it is not run again.
        fn: a coroutine function, or any other function, which is called in a thread. It may not ask, nor use `once`.
        *args: the arguments of `fn`.
        **kwargs: the named arguments of `fn`, with any name but `idempotent`.
        idempotent: whether a second run is safe where nobody knows whether the effect ran. It is safe if the other
            system takes the `idempotency_key`. No intent is recorded then: without a result the effect runs again, with
            the same arguments.

    Returns:
        A copy of what `fn` returned, read back from its stored form: JSON if the value comes back equal, else a pickle.

    Raises:
        InDoubt: the intent is recorded but no result is, and the effect is not `idempotent`; nothing was run now.
        KeyReused: `key` stands for another effect of this call.
        ResultNotKept: the effect ran, but its result can't be stored, or is larger than `FRAMEHOLD_MAX_VALUE`.
        EffectFailed: the effect raised an exception that can't be stored as it was.
        LimitExceeded: the journal has reached `FRAMEHOLD_MAX_JOURNAL`; nothing was run.
        NotInCall: there is no call here.
        AskError: `once` was used inside an effect.
        Exception: whatever `fn` raised.
    """
    return _once(current.get(), key, fn, args, kwargs, idempotent)


async def _once(
    call: Present | None, key: str, fn: Callable[..., Any], args: Any, kwargs: Any, idempotent: bool
) -> Any:
    """See `once`. `call` is the call that made this coroutine: `unawaited` reads it, wherever that is freed."""
    _check_key("once", key, is_sent=False)
    if inspect.iscoroutine(fn):
        fn.close()
        why = (
            f"framehold.once({key!r}): its second argument must be the function, not what a call of it gave; nothing "
            f"was run; write once({key!r}, {fn.__name__}, *arguments)"
        )
        raise misused(TypeError(why))
    if not callable(fn):
        why = (
            f"framehold.once({key!r}): its second argument must be a function, not {type(fn).__name__}; once ran "
            f"nothing, but if this is what a call gave, that has run already; write once({key!r}, function, *arguments)"
        )
        raise misused(TypeError(why))
    recorder = present(f"framehold.once({key!r})").recorder()
    return await recorder.once(key, fn, args, kwargs, idempotent)


unawaited.watch(_once)


def idempotency_key(key: str) -> str:
    """A text of 32 hex digits. It is the same for `key` in each run of this call, on every node, and differs for any
    other key or call. Give it to systems that take an idempotency key: then an effect that runs twice counts once.

    Raises:
        NotInCall: there is no call here.
    """
    origin = present(f"framehold.idempotency_key({key!r})").recorder().origin
    return hashlib.sha256(f"framehold idempotency 1\n{origin}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def now(name: str | None = None) -> datetime:
    """The time in UTC by the store's clock, recorded: a handler that is entered again gets the same one. Under strategy
    replay it is the time of the last question, or of the beginning of the call.

    Args:
        name: names the value, which is needed where branches of a gather draw values. Without a name a value is
            identified by its number, in the order of drawing.

    Raises:
        NotInCall: there is no call here.
    """
    return datetime.fromtimestamp(_value("now", name, lambda entropy, key: entropy.now()), UTC)


def uuid4(name: str | None = None) -> UUID:
    """A random UUID (version 4), recorded: a handler that is entered again gets the same UUID.

    Args:
        name: names the value, as for `now`.

    Raises:
        NotInCall: there is no call here.
    """
    return UUID(_value("uuid4", name, lambda entropy, key: str(UUID(bytes=entropy.draw(key), version=4))))


def random(name: str | None = None) -> float:
    """A random number from 0.0 up to, but not including, 1.0, recorded: a handler that is entered again gets the same
    number.

    Args:
        name: names the value, as for `now`.

    Raises:
        NotInCall: there is no call here.
    """
    number: float = _value(
        "random", name, lambda entropy, key: (int.from_bytes(entropy.draw(key)[:7]) >> 3) / (1 << 53)
    )
    return number


def _value(kind: str, name: str | None, draw: Callable[[Entropy, str], Any]) -> Any:
    recorder, observer = present(f"framehold.{kind}()").recorder(), rehearsal_observer.get()
    if observer is None:
        return recorder.value(kind, name, draw)
    return recorder.value(kind, name, lambda _, key: draw(observer.entropy, key))
