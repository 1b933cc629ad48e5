"""The functions of a `ToolBuilder`, and one run of them: first each step until it returns data, then the end, under
`once`.

A run starts again from its top when its node has died, and with each answer under strategy replay. Then the steps run
again and get the recorded answers; the end is not run again.
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

from ..frame.async_functions import is_async
from ..frame.rehearsal import misused
from ..sdk.present_call import Present
from ..sdk.session import FrameSession
from ..wires.legacy_shim import legacy_request
from . import functions
from .handler_context import Answers
from .readers import answering
from .signatures import Function, run

logger = logging.getLogger(__name__)

_TOOL_ERROR = "ToolError"
"""The kind under which a `ToolError` of the end is recorded."""


@dataclass(frozen=True, slots=True)
class Step:
    """A function of an author: a step or the end. `context` is the name of its parameter for the request's context, or
    None. `idempotent`: a second run of the end is safe."""

    name: str
    fn: Function
    signature: inspect.Signature
    context: str | None
    idempotent: bool = False

    def takes(self) -> dict[str, inspect.Parameter]:
        """The parameters of the function, without the context."""
        return {name: item for name, item in self.signature.parameters.items() if name != self.context}

    def given(self, known: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of the function, without the context. A parameter that is not in `known` has a default."""
        return {name: known[name] for name in self.takes() if name in known}

    def context_argument(self, ctx: object) -> dict[str, object]:
        """The context as an argument, if the function takes one; else empty."""
        return {} if self.context is None else {self.context: ctx}


async def through(call: Present, steps: tuple[Step, ...], end: Step, arguments: dict[str, Any], ctx: object) -> Any:
    """Run the tool once from its top. A run after a death gets the recorded answers and results.

    Raises:
        ToolError: the end raised it, nobody knows whether the end ran, or the result of the end can't be kept. The
            last two are a `ToolError` since the SDK gives a client no other error text, and no function of the author
            could catch them.
    """
    known = dict(arguments)
    for step in steps:
        known[step.name] = await _data(call, step, known, ctx)
    final = functools.partial(_final(end, ctx), **end.given(known))
    try:
        return await functions.once(end.name, final, idempotent=end.idempotent)
    except InDoubt as doubt:
        raise ToolError(
            f"{end.name} was begun and its result is not known: it may have run, or may yet run; it was not run "
            "again; look where it would show before you start the call again"
        ) from doubt
    except ResultNotKept as lost:
        logger.error(
            "the end %r ran, its result does not reach its client, and it is not run again: %s", end.name, lost
        )
        raise ToolError(
            f"{end.name} ran, and its result can't be kept, so it can't be returned; it is not run again; look where "
            "it would show before you start the call again"
        ) from lost
    except EffectFailed as failed:
        if failed.kind == _TOOL_ERROR:
            raise ToolError(str(failed)) from None
        raise


async def _data(call: Present, step: Step, known: Mapping[str, Any], ctx: object) -> Any:
    """Run a step, and ask its questions in as many rounds as it needs. Returns its data."""
    answers: Answers = {}
    while True:
        with answering(ctx, answers):
            found = await run(step.fn, (), {**step.given(known), **step.context_argument(ctx)})
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
    """Ask the questions of a step, all in one round. Returns the answers by key."""
    if len(requests) == 1:
        return {key: await _answer(call, key, request) for key, request in requests.items()}
    try:
        async with asyncio.TaskGroup() as together:
            asking = {key: together.create_task(_answer(call, key, item)) for key, item in requests.items()}
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None
    return {key: task.result() for key, task in asking.items()}


async def _answer(call: Present, key: str, request: types.InputRequest) -> Any:
    """Ask one question. Returns its answer, parsed as the question's own result type."""
    earlier, expected = legacy_request(request)
    if isinstance(call.session, FrameSession):
        return await call.session.keyed(key).send_request(request, expected)
    # With the request's id it is refused at once if the stream of the call can't carry it.
    related = ServerMessageMetadata(related_request_id=call.request_id)
    return await call.session.send_request(earlier, expected, metadata=related)


def _final(end: Step, ctx: object) -> Function:
    """The end as an effect. It gets the context, and may not ask. A `ToolError` of the end is recorded by its text: a
    client gets nothing else of it, and a text can be recorded even if pickles are switched off."""

    @contextlib.contextmanager
    def recorded() -> Iterator[None]:
        try:
            yield
        except UnexpectedToolError:
            raise
        except ToolError as error:
            raise EffectFailed(str(error), kind=_TOOL_ERROR) from error

    def checked(found: Any) -> Any:
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
            return checked(await end.fn(**values, **end.context_argument(ctx)))

    @functools.wraps(end.fn)
    def plain(**values: Any) -> Any:
        with recorded():
            return checked(end.fn(**values, **end.context_argument(ctx)))

    return final if is_async(end.fn) else plain
