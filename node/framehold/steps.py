"""The functions that a `ToolBuilder` is made of, and one run through them: each step until it has its data, then the
end, under `once`.

A run is entered again from its top after a death, or with each answer under strategy replay: the steps run again and
are given the recorded answers, the end is not run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.message import ServerMessageMetadata

from framehold_core.errors import AskError, EffectFailed, InDoubt, ResultNotKept

from . import authoring
from .authored import Function, is_async, run
from .authoring import Present
from .contexts import Answers
from .legacy import leg
from .responses import answering
from .session import FrameSession
from .witness import misused

logger = logging.getLogger(__name__)

_TOLD = "ToolError"
"""The kind under which an end's own `ToolError` is recorded."""


@dataclass(frozen=True, slots=True)
class Step:
    """A function of an author's. `context` is its parameter for the request's context; `idempotent` says of an end that
    a second run is safe."""

    name: str
    fn: Function
    signature: inspect.Signature
    context: str | None
    idempotent: bool = False

    def takes(self) -> dict[str, inspect.Parameter]:
        """Its parameters, less the context."""
        return {name: item for name, item in self.signature.parameters.items() if name != self.context}

    def given(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """What it is called with, less the context; what isn't known has a default."""
        return {name: known[name] for name in self.takes() if name in known}

    def seeing(self, ctx: object) -> dict[str, object]:
        """The context, if it takes one."""
        return {} if self.context is None else {self.context: ctx}


async def through(call: Present, steps: tuple[Step, ...], end: Step, arguments: dict[str, Any], ctx: object) -> Any:
    """One run of the tool from its top: again after a death, with what is recorded.

    Raises:
        ToolError: the end raised one; nobody knows whether it ran; or what it gave can't be kept. No function of the
            author's is there to catch the latter two, and the SDK tells a client of nothing else.
    """
    known = dict(arguments)
    for step in steps:
        known[step.name] = await _data(call, step, known, ctx)
    final = functools.partial(_final(end, ctx), **end.given(known))
    try:
        return await authoring.once(end.name, final, idempotent=end.idempotent)
    except InDoubt as doubt:
        raise ToolError(
            f"{end.name} was begun and its result is not known: it may have run, or may yet run; it was not run "
            "again; look where it would show before you start the call again"
        ) from doubt
    except ResultNotKept as lost:
        logger.error("the end %r ran, its client is not told what it gave, and it is not run again: %s", end.name, lost)
        raise ToolError(
            f"{end.name} ran, and what it gave can't be kept, so it can't be told; it is not run again; look where it "
            "would show before you start the call again"
        ) from lost
    except EffectFailed as failed:
        if failed.kind == _TOLD:
            raise ToolError(str(failed)) from None
        raise


async def _data(call: Present, step: Step, known: Mapping[str, Any], ctx: object) -> Any:
    """What a step gives, after as many rounds as it wants."""
    answers: Answers = {}
    while True:
        with answering(ctx, answers):
            found = await run(step.fn, (), {**step.given(known), **step.seeing(ctx)})
        if not isinstance(found, types.InputRequiredResult):
            return found
        if found.request_state is not None:
            raise misused(
                AskError(
                    f"the step {step.name!r} returned a request_state, which a step has no use for; nothing was asked; "
                    "return what it has learned as its data, and ask for more in a step of its own"
                )
            )
        answers = await _asked(call, found.input_requests or {})


async def _asked(call: Present, requests: Mapping[str, types.InputRequest]) -> Answers:
    """The answers to a step's questions, each under its own key, all in one round."""
    if len(requests) == 1:
        return {key: await _answer(call, key, request) for key, request in requests.items()}
    try:
        async with asyncio.TaskGroup() as together:
            asking = {key: together.create_task(_answer(call, key, item)) for key, item in requests.items()}
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return {key: task.result() for key, task in asking.items()}


async def _answer(call: Present, key: str, request: types.InputRequest) -> Any:
    """The answer to one question, as its own result type."""
    earlier, expected = leg(request)
    if isinstance(call.session, FrameSession):
        return await call.session.keyed(key).send_request(request, expected)
    # Named, so that it is refused at once where the call's own stream can't carry it.
    related = ServerMessageMetadata(related_request_id=call.request_id)
    return await call.session.send_request(earlier, expected, metadata=related)


def _final(end: Step, ctx: object) -> Function:
    """The end as an effect: it sees the context, and may not ask. A `ToolError` of it is recorded by its text alone,
    which is all that a client hears of it, so that it is the same where pickles are off."""

    @contextlib.contextmanager
    def recorded() -> Iterator[None]:
        try:
            yield
        except UnexpectedToolError:
            raise
        except ToolError as error:
            raise EffectFailed(str(error), kind=_TOLD) from error

    def told(found: Any) -> Any:
        if isinstance(found, types.InputRequiredResult):
            raise misused(
                AskError(
                    f"the end {end.name!r} returned an InputRequiredResult; nothing was asked, what it did before is "
                    "done; ask in a step"
                )
            )
        return found

    @functools.wraps(end.fn)
    async def final(**values: Any) -> Any:
        with recorded():
            return told(await end.fn(**values, **end.seeing(ctx)))

    @functools.wraps(end.fn)
    def plain(**values: Any) -> Any:
        with recorded():
            return told(end.fn(**values, **end.seeing(ctx)))

    return final if is_async(end.fn) else plain
