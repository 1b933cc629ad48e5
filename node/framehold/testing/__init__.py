"""Rehearse a tool in a test: play one call held, replayed and rebuilt on other nodes, and compare.

    # conftest.py, the topmost one; or, in any other: from framehold.testing import rehearse
    pytest_plugins = ["framehold.testing"]

    # test_order.py
    def test_order(rehearse):
        rehearsal = rehearse(mcp, "order", {"item": "tea"}, answers=[{"sure": True}])
        assert rehearsal.questions == ["Order tea?"] and rehearsal.effects == ["audit", "charge"]

The rehearsal of a handler fails if the handler asks, runs or returns something else when it is entered again. So the
fault shows in a test, and not when a node dies. A rehearsal can't find:

- an effect outside `once` that leaves no trace in questions and results
- the order of a set of texts: it differs from process to process, and all ways are played in one process. Assert what
  you expect (`rehearsal.questions == [...]`): then the test fails in some runs. The nodes of one `framehold up` have
  different orders
- code that blocks the loop or a thread: `timeout` can't interrupt it

Effects of `once` really run, but only once: while the call is held. In the other ways `once` gives a copy of the result
or the exception of that run, after as long as it took, and the effect's function is not called; so
`assert charges == ["tea"]` holds. A variable of the handler that an effect has set is not set in the other ways, as on
another node. Effects outside `once` run in each entry: use a fake for the outside world, and put back any other state
with `reset`.

With `against`, a rehearsal plays a call of an earlier release of the server, and deploys the present one while the call
waits: after each round, once with the code that the call began with, and once without. So a test shows which change
breaks which waiting calls. The earlier release is a server, or what `record` has written when it was tested.

A handler that raises fails its rehearsal, unless `raises` says so. Some handlers misuse Framehold: they use a key for
two effects, ask inside an effect, or call `once` without `await`. Their rehearsal fails with that error, even if the
handler catches it.

PYTEST_DONT_REWRITE: a conftest may import this before it names it as a plugin.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from pydantic_core import to_json, to_jsonable_python

from ..hosts.host_choice import host_of, is_server
from ..sdk.form_content import listed
from ..sdk.marks import Marks
from .client_script import Answer, Answers, AskedQuestion, ClientScript, RehearsalFailed, together
from .comparison import Reset, compared
from .deploys import Deploy, DeployedRelease, DeployOutcome, deployed, verdict
from .recording import Recording, loaded
from .rehearsal import Act, Way
from .report import Rehearsal, rehearsal_of
from .server_double import HandlerSearch, Original, digest_of, require_imported
from .sync import at_once, without_own_frames

__all__ = [
    "Answer",
    "AskedQuestion",
    "Deploy",
    "DeployOutcome",
    "Rehearsal",
    "RehearsalFailed",
    "Rehearse",
    "rehearsed",
    "together",
]

RehearsalFailed.__module__ = Rehearsal.__module__ = Deploy.__module__ = DeployOutcome.__module__ = __name__

_METHODS = {"tool": ("tools/call", "name"), "prompt": ("prompts/get", "name"), "resource": ("resources/read", "uri")}


async def rehearsed(
    server: Any,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    answers: Answers = (),
    kind: Literal["tool", "prompt", "resource"] = "tool",
    ways: Sequence[Way] | None = None,
    assume_reentrant: bool = False,
    allow_misuse: bool = False,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    reset: Callable[[], Any] | None = None,
    now: datetime | None = None,
    seed: int = 0,
    timeout: float = 10.0,
    against: Any = None,
    record: str | Path | None = None,
) -> Rehearsal:
    """Play one call held, then in other ways, and compare its questions, effects and results.

    With `against`, play the call on an earlier release, and deploy `server` while it waits.

    Each way is played on a double of `server`, in this process and on this loop. The server itself is not changed, and
    need not be attached. Its lifespan is entered for each node: one node for hold, one for replay, and one for each
    round of rebuild. `framehold.now()` stands still; `uuid4`, `random` and `idempotency_key` are the same in all ways,
    and in each run of the test.

    Args:
        server: an MCPServer, a low-level Server or a FastMCP server.
        name: the name of the tool or the prompt, or the address of the resource.
        arguments: the arguments of the tool or the prompt.
        answers: one for each question, in order: a dict or model (the content of a form; {} accepts a URL), "decline",
            "cancel", a text (for sampling), one of the SDK's results (for roots, or any question), or a function that
            gets the question (`AskedQuestion`) and returns one of these. `together(...)` answers a round by keys.
            Instead of a sequence, one function for all questions.
        kind: the kind of handler that is called.
        ways: the ways to play besides hold. "replay": each answer enters the handler again, from the journal in the
            token; "rebuild": after each round the node is closed, and a new node claims the call. None: both, but only
            "rebuild" for a handler that is marked `@framehold.options(strategy="hold")`. Every call is held first.
        assume_reentrant: rehearse a handler that is not marked, to find out whether it may be marked.
        allow_misuse: let the handler deal with KeyReused, AskError, DuplicateAsk, NotInCall, a TypeError of `once`, and
            a `once` that is never awaited. Else they fail the rehearsal, even if the handler catches them.
        raises: the exception with which the handler is to end the call, or a tuple of them. Without it an exception
            that ends the call fails the rehearsal; with it, a call that ends without one, or with another. A handler
            that returns an error result raises nothing.
        reset: called before each way, and awaited if it returns an awaitable. It puts back the state that the handler
            changes outside of `once`. Effects of `once` need no reset: they run while the call is held, and never
            again.
        now: the time that `framehold.now()` returns; None for the time at which the rehearsal begins.
        seed: the seed of the random values.
        timeout: seconds that each way may take.
        against: the earlier release: a server, or the path or the bytes of what `record` has written. The call is
            played there, and its answers are for the questions asked there; a question that only `server` asks gets the
            answer to the question that had its place, or that of the function. Then `server` is deployed after each
            round, and the outcomes are compared with the earlier release. Give only a recording of a source that you
            trust: loading one runs the code in it. Its answers, time, seed and random values are those of the
            recording; `answers` may be a function for other questions. `ways` is not used.
        record: a path to write a recording of the call to. A test of a later release gives it as `against`. The
            recording has the handler's code, the answers, and the results of effects.

    Returns:
        The questions, the effects and the result of the call, which are the same in all ways. With `against` they are
        those of the earlier release, and `deploys` has the outcomes of the deploys.

    Raises:
        RehearsalFailed (an AssertionError): the ways differ, or the call diverges (the text has the recorded question,
            the one that was asked, and the likely cause); an effect runs in one way only, twice, or with other
            arguments; the handler raises, and `raises` does not say so; the call misuses framehold; there are too few
            or too many answers, or one does not match its form; a way takes too long; a deploy breaks the waiting call
            (the text has the round, and what the present code does otherwise).
        ValueError: there is no such handler (the text lists those that there are), or it is not marked re-entrant; the
            recording can't be read, or is that of another call; `against` and `record` are both given; `kind` or one of
            `ways` is none of the choices.
        TypeError: `server` is no server of these kinds.
    """
    __tracebackhide__ = True
    try:
        method, params = _request(kind, name, arguments)
        instant = time.time() if now is None else now.timestamp()
        drawn = hashlib.blake2b(to_json([seed, method, params]), digest_size=32).digest()
        original = Original(server, secrets.token_hex(32), assume_reentrant)
        act = Act(original, method, params, drawn, instant, timeout, allow_misuse, raises)
        before = partial(_reset, reset)
        if against is not None and record is not None:
            raise ValueError("against and record belong to tests of two releases; nothing was run; give one of them")
        if against is None:
            others = _others(await _marks(act, kind, name), ways)
            rehearsal, recorder = await compared(act, others, ClientScript(answers), before)
            if record is not None:
                (await recorder.recording()).save(record)
            return rehearsal
        earlier, rehearsal = await _earlier(act, kind, name, against, answers, before)
        return await _deployed(act, kind, name, earlier, rehearsal, before)
    except Exception as error:
        raise without_own_frames(error)  # noqa: B904 - it is the same error


def _request(kind: str, name: str, arguments: Mapping[str, Any] | None) -> tuple[str, dict[str, Any]]:
    """The method and the parameters of the call's first request."""
    if kind not in _METHODS:
        raise ValueError(f"kind={kind!r}: nothing was run; give one of {listed(_METHODS)}")
    method, target = _METHODS[kind]
    params: dict[str, Any] = {target: name}
    if arguments is not None:
        params["arguments"] = to_jsonable_python(dict(arguments))
    return method, params


async def _marks(act: Act, kind: str, name: str) -> Marks:
    """The marks of the handler. Raises ValueError if there is none, or it is not re-entrant."""
    handlers = HandlerSearch(host_of(act.original.server))
    if (missing := await handlers.missing(act.method, kind, name)) is not None:
        raise ValueError(missing)
    marks = handlers.find(act.method, act.params).marks
    if not (marks.reentrant or act.original.assume_reentrant):
        raise ValueError(_UNMARKED.format(kind=kind, name=name))
    return marks


_UNMARKED = (
    "{kind} {name!r} is not marked @framehold.reentrant: it would be entered once per call, and has nothing to "
    "rehearse; nothing was run; mark it, or say assume_reentrant=True to see whether it may be"
)


async def _obstacle(act: Act, kind: str, name: str) -> str:
    """Why the server of `act` does not enter its own code for a waiting call; empty if it does."""
    handlers = HandlerSearch(host_of(act.original.server))
    if await handlers.missing(act.method, kind, name) is not None:
        return f"the present release has no {kind} {name!r}"
    if handlers.find(act.method, act.params).marks.reentrant or act.original.assume_reentrant:
        return ""
    return f"{kind} {name!r} is not marked @framehold.reentrant in the present release"


def _others(marks: Marks, ways: Sequence[Way] | None) -> tuple[Way, ...]:
    if ways is not None and (isinstance(ways, str) or any(way not in get_args(Way) for way in ways)):
        raise ValueError(f"ways={ways!r}: nothing was run; give a list of {listed(get_args(Way))}")
    usual: tuple[Way, ...] = ("rebuild",) if marks.strategy == "hold" else ("replay", "rebuild")
    return tuple(way for way in (usual if ways is None else ways) if way != "hold")


async def _reset(reset: Callable[[], Any] | None) -> None:
    if reset is not None and isawaitable(done := reset()):
        await done


async def _earlier(
    act: Act, kind: str, name: str, against: Any, answers: Answers, reset: Reset
) -> tuple[Recording, Rehearsal]:
    """The call in the earlier release `against`."""
    if is_server(against):
        act = act._replace(original=act.original._replace(server=against))
        await _marks(act, kind, name)
        require_imported(act.original.server, act.method, act.params)
        rehearsal, recorder = await compared(act, (), ClientScript(answers), reset)
        return await recorder.recording(), replace(rehearsal, ways=("hold", "replay"))
    recording = loaded(against, answers)
    if (recording.method, recording.params) != (act.method, act.params):
        raise ValueError(
            f"the recording is of {recording.method} with {recording.params}, and this call is {act.method} with "
            f"{act.params}; nothing was played; record this call with the earlier release"
        )
    return recording, rehearsal_of(recording.run, act.method, ("replay",))


async def _deployed(
    act: Act, kind: str, name: str, earlier: Recording, rehearsal: Rehearsal, reset: Reset
) -> Rehearsal:
    """`rehearsal` with what becomes of the call of the earlier release if the server of `act` is deployed. Raises
    RehearsalFailed if it breaks."""
    server = act.original.server
    act = act._replace(original=act.original._replace(key=earlier.key), seed=earlier.seed, instant=earlier.instant)
    obstacle = await _obstacle(act, kind, name)
    unchanged = not obstacle and digest_of(server, act.method, act.params) == earlier.digest
    deploys = await deployed(earlier, DeployedRelease(act, unchanged, obstacle), reset)
    if why := verdict(name, deploys):
        raise RehearsalFailed(why)
    return replace(rehearsal, deploys=deploys)


class Rehearse(Protocol):
    """The type of the fixture `rehearse`. Its parameters and errors are those of `rehearsed`."""

    def __call__(
        self,
        server: Any,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        answers: Answers = (),
        kind: Literal["tool", "prompt", "resource"] = "tool",
        ways: Sequence[Way] | None = None,
        assume_reentrant: bool = False,
        allow_misuse: bool = False,
        raises: type[BaseException] | tuple[type[BaseException], ...] = (),
        reset: Callable[[], Any] | None = None,
        now: datetime | None = None,
        seed: int = 0,
        timeout: float = 10.0,
        against: Any = None,
        record: str | Path | None = None,
    ) -> Rehearsal:
        """Rehearse a call; see `rehearsed`."""
        ...


try:
    import pytest
except ImportError:
    # Only its fixture needs it.
    pass
else:

    @pytest.fixture
    def rehearse() -> Rehearse:
        """`rehearsed` for a test that is not async: `rehearsal = rehearse(server, "tool", answers=[...])`. In an async
        test it blocks the loop of the test; `await framehold.testing.rehearsed(...)` runs on that loop."""
        return at_once(rehearsed)
