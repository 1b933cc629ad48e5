"""Rehearse a tool in a test: play one call held, replayed and rebuilt on other nodes, and compare.

    # conftest.py, the topmost one; or, in any other: from framehold.testing import rehearse
    pytest_plugins = ["framehold.testing"]

    # test_order.py
    def test_order(rehearse):
        told = rehearse(mcp, "order", {"item": "tea"}, answers=[{"sure": True}])
        assert told.questions == ["Order tea?"] and told.effects == ["audit", "charge"]

A handler that asks, runs or returns something else when it is entered again is told by name, before a dying node tells
it. What can't be seen from here:

- an effect outside `once` that leaves no trace in questions and results
- the order of a set of texts: it differs from one process to the next, and all ways are played in this one. Say what
  you expect (`told.questions == [...]`), and a test that passes only sometimes tells it
- code that holds up the loop or a thread: `timeout` can't cut it off

Effects of `once` really run, once in all: while the call is held. In the other ways `once` gives a copy of what the
same effect gave or raised then, and its function is not called; so `assert charges == ["tea"]` holds. What an effect
left in a variable of the handler is not there then, as on another node. Effects outside `once` run in each entry: let
the outside world be a fake, and `reset` what else should be as it was.

A handler that does what it may not (a key for two effects, a question inside an effect, `once` without `await`) fails
its rehearsal with the error that it was told, although a client would only hear that a tool failed.

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

from ..marks import Marks
from .double import Original, There
from .effects import Effects
from .outside import at_once, bared
from .rehearsal import Act, Run, Way, compare
from .script import Answer, Answers, Asked, RehearsalFailed, Script, together
from .told import Told, told_of

__all__ = ["Answer", "Asked", "RehearsalFailed", "Rehearse", "Told", "rehearsed", "together"]

RehearsalFailed.__module__ = Told.__module__ = __name__

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
) -> Told:
    """Play one call held, then in other ways, and compare what it asks, runs and returns.

    Each way is played on a double of `server`, in this process and on this loop; the server itself is not changed, nor
    need it be attached. Its lifespan is entered for each node: once held, once replayed, and once a round rebuilt.
    `framehold.now()` stands still; `uuid4`, `random` and `idempotency_key` are the same in all ways, and in each run of
    the test.

    Args:
        server: an MCPServer, a low-level Server or a FastMCP server.
        name: of the tool or prompt; of a resource its address.
        arguments: of the tool or prompt.
        answers: one for each question, in order: a dict or model (the content of a form; {} accepts a URL), "decline",
            "cancel", a text (for sampling), one of the SDK's results (for roots, or anything), or a function that is
            given the question (`Asked`) and returns one of these. `together(...)` answers a round by keys. Instead of
            a sequence, one function for all.
        kind: what is called.
        ways: which are played beside hold. "replay": each answer enters the handler anew from its token; "rebuild": a
            new node claims the call after each round, and the one before it is closed. None: both, but for a handler
            that is marked `@framehold.hold(strategy="hold")` no replay. Every call is held first.
        assume_reentrant: rehearse a handler that is not marked, to see whether it may be.
        allow_misuse: leave it to the handler what becomes of KeyReused, AskError, DuplicateAsk, NotInCall, a TypeError
            of `once`, and a `once` that is never awaited. Else they fail the rehearsal, also where they are caught.
        reset: called, and awaited if need be, before each way: puts back what the handler changes outside of `once`.
            What effects of `once` change needs none: they run while the call is held, and never again.
        now: what `framehold.now()` says; None for the time at which the rehearsal begins.
        seed: another one gives other random values.
        timeout: seconds that each way may take.

    Raises:
        RehearsalFailed (an AssertionError): the ways differ, or the call diverges (recorded, asked, likely cause); an
            effect runs in one way only, twice, or with other arguments; the call misuses framehold; answers are too
            few or too many; it takes too long.
        ValueError: the handler is not there (the text has the names that are), or not marked re-entrant; nothing was
            run.
        TypeError: `server` is neither.
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
        raise bared(error)  # noqa: B904 - it is the same error


async def _marks(server: Any, kind: str, name: str, params: dict[str, Any], assume_reentrant: bool) -> Marks:
    handlers, (method, _) = There(server), _METHODS[kind]
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


async def _compared(act: Act, others: tuple[Way, ...], script: Script, reset: Callable[[], Any] | None) -> Told:
    known = Effects()
    held = await _played(act, "hold", script, known, reset)
    told = told_of(held, act.method, ("hold", *others))
    if left := script.left():
        raised = "" if told.raised is None else f", and the handler raised {told.raised!r}"
        raise RehearsalFailed(
            f"too many answers: {len(left)} of {len(told.asked) + len(left)} were not asked for, {left[0]!r} first; "
            f"asked were {told.questions}; the call came to {told.text!r}{raised}"
        )
    for way in others:
        compare(held, await _played(act, way, script, known, reset), script)
    return told


async def _played(act: Act, way: Way, script: Script, known: Effects, reset: Callable[[], Any] | None) -> Run:
    if reset is not None and isawaitable(done := reset()):
        await done
    run = await act.play(way, script, known)
    if run.failure is not None:
        raise run.failure
    return run


Rehearse = Callable[..., Told]
"""The type of the fixture `rehearse`: parameters and errors are those of `rehearsed`."""

try:
    import pytest
except ImportError:
    # Only its fixture needs it.
    pass
else:

    @pytest.fixture
    def rehearse() -> Rehearse:
        """`rehearsed`, for a test that is not async: `told = rehearse(server, "tool", answers=[...])`. In an async test
        it holds up the test's loop meanwhile; `await framehold.testing.rehearsed(...)` runs on it."""
        return at_once(rehearsed)
