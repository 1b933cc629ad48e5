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

Effects really run, once in each way; so let the outside world be a fake, and `reset` it if it minds.

PYTEST_DONT_REWRITE: a conftest may import this before it names it as a plugin.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import hashlib
import secrets
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from inspect import isawaitable
from typing import Any, Literal, ParamSpec

import mcp_types as types
from mcp.server.mcpserver import MCPServer
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_MODERN_VERSION
from pydantic_core import to_json, to_jsonable_python

from ..attach import lowlevel
from ..handlers import Handlers
from .double import Original
from .rehearsal import Act, Run, Way, compare
from .script import Answer, Answers, Asked, RehearsalFailed, Script, together

__all__ = ["Answer", "Asked", "RehearsalFailed", "Rehearse", "Told", "rehearsed", "together"]

RehearsalFailed.__module__ = __name__

P = ParamSpec("P")
_METHODS = {"tool": ("tools/call", "name"), "prompt": ("prompts/get", "name"), "resource": ("resources/read", "uri")}


@dataclass(frozen=True)
class Told:
    """What a call came to, the same in all `ways` that it was played.

    Either `result` or `error` is there. `asked` are its questions in order, `effects` the keys of the effects of `once`
    that really ran, in the order in which they began while the call was held.
    """

    result: types.CallToolResult | types.GetPromptResult | types.ReadResourceResult | None
    error: types.ErrorData | None
    asked: tuple[Asked, ...]
    effects: list[str]
    ways: tuple[Way, ...]

    @property
    def text(self) -> str:
        """The texts of the result, one below the other; of an error its message."""
        found: Sequence[Any]
        if isinstance(self.result, types.CallToolResult):
            found = self.result.content
        elif isinstance(self.result, types.GetPromptResult):
            found = [message.content for message in self.result.messages]
        elif self.result is not None:
            found = self.result.contents
        else:
            return "" if self.error is None else self.error.message
        return "\n".join(block.text for block in found if hasattr(block, "text"))

    @property
    def questions(self) -> list[str]:
        """What the user read, question by question."""
        return [item.message for item in self.asked]

    @property
    def rounds(self) -> list[list[str]]:
        """The same, round by round. A round of a handler that parks by hand may ask nothing."""
        last = max((item.round for item in self.asked), default=0)
        return [[item.message for item in self.asked if item.round == n] for n in range(1, last + 1)]


async def rehearsed(
    server: Any,
    name: str,
    arguments: Mapping[str, Any] | None = None,
    *,
    answers: Answers = (),
    kind: Literal["tool", "prompt", "resource"] = "tool",
    ways: Sequence[Way] | None = None,
    assume_reentrant: bool = False,
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
        server: an MCPServer or a low-level Server.
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
        reset: called, and awaited if need be, before each way: puts fakes back to how they were.
        now: what `framehold.now()` says; None for the time at which the rehearsal begins.
        seed: another one gives other random values.
        timeout: seconds that each way may take.

    Raises:
        RehearsalFailed (an AssertionError): the ways differ, or the call diverges (recorded, asked, likely cause); an
            effect runs twice in one way; answers are too few or too many; it takes too long.
        ValueError: the handler is not marked re-entrant; nothing was run.
        TypeError: `server` is neither.
    """
    __tracebackhide__ = True
    method, target = _METHODS[kind]
    params = {target: name} if arguments is None else {target: name, "arguments": to_jsonable_python(dict(arguments))}
    marks = Handlers(server if isinstance(server, MCPServer) else lowlevel(server)).marks(method, params)
    if not (marks.reentrant or assume_reentrant):
        raise ValueError(_UNMARKED.format(kind=kind, name=name))
    usual: tuple[Way, ...] = ("rebuild",) if marks.strategy == "hold" else ("replay", "rebuild")
    others = tuple(way for way in (usual if ways is None else ways) if way != "hold")
    instant = time.time() if now is None else now.timestamp()
    drawn = hashlib.blake2b(to_json([seed, method, params]), digest_size=32).digest()
    act = Act(Original(server, secrets.token_hex(32)), method, params, drawn, instant, timeout)
    script = Script(answers)
    held = await _played(act, "hold", script, reset)
    told = _told(held, method, ("hold", *others))
    if left := script.left():
        raise RehearsalFailed(
            f"too many answers: {len(left)} of {len(told.asked) + len(left)} were not asked for, {left[0]!r} first; "
            f"asked were {told.questions}; the call came to {told.text!r}"
        )
    for way in others:
        compare(held, await _played(act, way, script, reset), script)
    return told


_UNMARKED = (
    "{kind} {name!r} is not marked @framehold.reentrant, or not there: it would be entered once per call, and has "
    "nothing to rehearse; nothing was run; mark it, or say assume_reentrant=True to see whether it may be"
)


async def _played(act: Act, way: Way, script: Script, reset: Callable[[], Any] | None) -> Run:
    if reset is not None and isawaitable(done := reset()):
        await done
    run = await act.play(way, script)
    if run.failure is not None:
        raise run.failure
    return run


def _told(run: Run, method: str, ways: tuple[Way, ...]) -> Told:
    result: Any = None
    error: types.ErrorData | None = None
    if isinstance(run.reply, types.ErrorData):
        error = run.reply
    else:
        result = parse_server_result(method, LATEST_MODERN_VERSION, run.reply)
    return Told(result, error, tuple(run.asked), list(run.effects), ways)


def _at_once(fn: Callable[P, Coroutine[Any, Any, Told]]) -> Callable[P, Told]:
    """`fn` for tests that are not async, and for those that are: on a loop of its own, in a thread where one runs."""

    @functools.wraps(fn)
    def run(*args: P.args, **kwargs: P.kwargs) -> Told:
        __tracebackhide__ = True

        def whole() -> Told:
            __tracebackhide__ = True
            try:
                with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                    return runner.run(fn(*args, **kwargs))
            except RehearsalFailed as error:
                # It speaks of the test's own code: the way from there to here is no news.
                raise error.with_traceback(None) from None

        if not _on_a_loop():
            return whole()
        with ThreadPoolExecutor(1, "rehearsal") as threads:
            return threads.submit(contextvars.copy_context().run, whole).result()

    return run


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


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
        return _at_once(rehearsed)
