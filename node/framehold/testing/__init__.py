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
  you expect (`rehearsal.questions == [...]`): then the test fails in some runs
- code that blocks the loop or a thread: `timeout` can't interrupt it

Effects of `once` really run, but only once: while the call is held. In the other ways `once` gives a copy of the result
or the exception of that run, and the effect's function is not called; so `assert charges == ["tea"]` holds. A variable
of the handler that an effect has set is not set in the other ways, as on another node. Effects outside `once` run in
each entry: use a fake for the outside world, and put back any other state with `reset`.

Some handlers misuse Framehold: they use a key for two effects, ask inside an effect, or call `once` without `await`.
Their rehearsal fails with the error that the handler got, although a client would only get that the tool failed.

PYTEST_DONT_REWRITE: a conftest may import this before it names it as a plugin.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from inspect import isawaitable
from typing import Any, Literal

from pydantic_core import to_json, to_jsonable_python

from ..hosts.host_choice import host_of
from ..sdk.marks import Marks
from .client_script import Answer, Answers, Asked, RehearsalFailed, Script, together
from .recorded_effects import Effects
from .rehearsal import Act, Run, Way, compare
from .report import Rehearsal, rehearsal_of
from .server_double import HandlerSearch, Original
from .sync import at_once, without_own_frames

__all__ = ["Answer", "Asked", "Rehearsal", "RehearsalFailed", "Rehearse", "rehearsed", "together"]

RehearsalFailed.__module__ = Rehearsal.__module__ = __name__

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
    reset: Callable[[], Any] | None = None,
    now: datetime | None = None,
    seed: int = 0,
    timeout: float = 10.0,
) -> Rehearsal:
    """Play one call held, then in other ways, and compare its questions, effects and results.

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
            gets the question (`Asked`) and returns one of these. `together(...)` answers a round by keys. Instead of a
            sequence, one function for all questions.
        kind: the kind of handler that is called.
        ways: the ways to play besides hold. "replay": each answer enters the handler again, from the journal in the
            token; "rebuild": after each round the node is closed, and a new node claims the call. None: both, but only
            "rebuild" for a handler that is marked `@framehold.options(strategy="hold")`. Every call is held first.
        assume_reentrant: rehearse a handler that is not marked, to find out whether it may be marked.
        allow_misuse: let the handler deal with KeyReused, AskError, DuplicateAsk, NotInCall, a TypeError of `once`, and
            a `once` that is never awaited. Else they fail the rehearsal, even if the handler catches them.
        reset: called before each way, and awaited if it returns an awaitable. It puts back the state that the handler
            changes outside of `once`. Effects of `once` need no reset: they run while the call is held, and never
            again.
        now: the time that `framehold.now()` returns; None for the time at which the rehearsal begins.
        seed: the seed of the random values.
        timeout: seconds that each way may take.

    Returns:
        The questions, the effects and the result of the call, which are the same in all ways.

    Raises:
        RehearsalFailed (an AssertionError): the ways differ, or the call diverges (the text has the recorded question,
            the one that was asked, and the likely cause); an effect runs in one way only, twice, or with other
            arguments; the call misuses framehold; there are too few or too many answers; a way takes too long.
        ValueError: there is no such handler (the text lists those that there are), or it is not marked re-entrant;
            nothing was run.
        TypeError: `server` is no server of these kinds.
    """
    __tracebackhide__ = True
    try:
        method, target = _METHODS[kind]
        params: dict[str, Any] = {target: name}
        if arguments is not None:
            params["arguments"] = to_jsonable_python(dict(arguments))
        marks = await _marks(server, kind, name, params, assume_reentrant)
        usual: tuple[Way, ...] = ("rebuild",) if marks.strategy == "hold" else ("replay", "rebuild")
        others = tuple(way for way in (usual if ways is None else ways) if way != "hold")
        instant = time.time() if now is None else now.timestamp()
        drawn = hashlib.blake2b(to_json([seed, method, params]), digest_size=32).digest()
        act = Act(Original(server, secrets.token_hex(32)), method, params, drawn, instant, timeout, allow_misuse)
        return await _compared(act, others, Script(answers), reset)
    except Exception as error:
        raise without_own_frames(error)  # noqa: B904 - it is the same error


async def _marks(server: Any, kind: str, name: str, params: dict[str, Any], assume_reentrant: bool) -> Marks:
    handlers, (method, _) = HandlerSearch(host_of(server)), _METHODS[kind]
    if (missing := await handlers.missing(method, kind, name)) is not None:
        raise ValueError(missing)
    marks = handlers.marks(method, params)
    if not (marks.reentrant or assume_reentrant):
        raise ValueError(_UNMARKED.format(kind=kind, name=name))
    return marks


_UNMARKED = (
    "{kind} {name!r} is not marked @framehold.reentrant: it would be entered once per call, and has nothing to "
    "rehearse; nothing was run; mark it, or say assume_reentrant=True to see whether it may be"
)


async def _compared(act: Act, others: tuple[Way, ...], script: Script, reset: Callable[[], Any] | None) -> Rehearsal:
    known = Effects()
    held = await _played(act, "hold", script, known, reset)
    rehearsal = rehearsal_of(held, act.method, ("hold", *others))
    if left := script.left():
        raised = "" if rehearsal.raised is None else f", and the handler raised {rehearsal.raised!r}"
        raise RehearsalFailed(
            f"too many answers: {len(left)} of {len(rehearsal.asked) + len(left)} were not asked for, "
            f"{left[0]!r} first; asked were {rehearsal.questions}; the call came to {rehearsal.text!r}{raised}"
        )
    for way in others:
        compare(held, await _played(act, way, script, known, reset), script)
    return rehearsal


async def _played(act: Act, way: Way, script: Script, known: Effects, reset: Callable[[], Any] | None) -> Run:
    if reset is not None and isawaitable(done := reset()):
        await done
    run = await act.play(way, script, known)
    if run.failure is not None:
        raise run.failure
    return run


Rehearse = Callable[..., Rehearsal]
"""The type of the fixture `rehearse`. Its parameters and errors are those of `rehearsed`."""

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
