"""Tells of each round of a node's calls, for the terminal of `framehold up`: one line of JSON on standard output.

The law: a node that `up` did not start has no such observer, and writes no such line, because a line has the text of a
question. It has no answer, no result and no text of an exception. What the observer raises harms no call
(`engine.observer`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from mcp_types.methods import is_input_required
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from framehold.engine.answer_parsing import MalformedAnswer
from framehold.engine.observer import Observer, RequestEnd
from framehold.engine.replies import Ended, Parked
from framehold.engine.slot import Arrival, Slot
from framehold.engine.takeovers import REBUILT, Change, Takeover
from framehold.hosts.attached import Attached
from framehold.sdk.invocation import HandlerOutcome
from framehold.sdk.middleware_chain import PASSES, Call
from framehold.sdk.session import Ctx
from framehold.telemetry.failures import failure_of
from framehold_core import effects as fx
from framehold_core import events as ev
from framehold_core.ending import COMPLETED, Ending, How
from framehold_core.ids import prefix
from framehold_store import system_clock

from .round_line import RoundLine

MAX_QUESTION_CHARACTERS = 60
_RESOURCES = "resources/read"
_MAX_MARKED = 1000
"""How many calls are remembered whose frames were rebuilt, until their rounds are answered."""


def tell_of_rounds(attached: Attached, node: str, write: Callable[[str], None]) -> None:
    """From now on, have `write` called with a line for each round of the calls of a server on the node `node`."""
    attached.runtime.observers.add(RoundLog(node, write))
    attached.server.middleware.insert(0, EarlierCalls(node, write))


class RoundLog(Observer):
    """Tells of each round that is answered on the node `node`. `write` takes each line."""

    def __init__(self, node: str, write: Callable[[str], None]) -> None:
        self._node, self._write = node, write
        self._rebuilt: dict[Slot, None] = {}

    def takeover(self, slot: Slot, takeover: Takeover, change: Change) -> None:
        """Remember a call whose frame was rebuilt, until its round is answered."""
        if change == REBUILT:
            self._rebuilt[slot] = None
            if len(self._rebuilt) > _MAX_MARKED:
                del self._rebuilt[next(iter(self._rebuilt))]

    def answered(self, slot: Slot, arrival: Arrival, answer: RequestEnd, seconds: float) -> None:
        """Print a line for a round. If another node answers a request, that node prints its line."""
        found = _ended(slot, answer)
        if found is None:
            return
        before = "resumed" if type(arrival.event) is ev.Retry else ""
        if slot in self._rebuilt:
            del self._rebuilt[slot]
            before = "taken over" if slot.orphaned else "replayed"
        line = RoundLine(_name(slot), self._node, prefix(slot.call.id), seconds=seconds, before=before, **found)
        self._write(line.dump())


class EarlierCalls:
    """A middleware of the server that tells of each call of a client of an earlier revision. Its questions are asked
    within one request, which has no frame and no id: the call is one line, at its end. All other requests pass."""

    framehold = PASSES
    """It does nothing for clients of this revision."""

    def __init__(self, node: str, write: Callable[[str], None]) -> None:
        self._node, self._write = node, write

    async def __call__(self, ctx: Ctx, call_next: Call) -> Any:
        if ctx.protocol_version in MODERN_PROTOCOL_VERSIONS or ctx.method not in CALLS:
            return await call_next(ctx)
        began = system_clock.now()
        try:
            result = await call_next(ctx)
        except Exception as error:
            self._tell(ctx, began, Ending(How.PROTOCOL_ERROR, *failure_of(error)))
            raise
        # The SDK has made the result of an exception, whose class and place are in its own log line only.
        self._tell(ctx, began, Ending(How.TOOL_ERROR) if _is_error(result) else COMPLETED)
        return result

    def _tell(self, ctx: Ctx, began: float, ending: Ending) -> None:
        params = ctx.params or {}
        name = str(params.get("name") or params.get("uri") or ctx.method)
        how, seconds = "finished" if ending == COMPLETED else "failed", system_clock.now() - began
        line = RoundLine(name, self._node, "", how, seconds, f"revision {ctx.protocol_version}")
        line = replace(line, error=ending.error, place=ending.place)
        self._write(line.dump())


CALLS = ("tools/call", "prompts/get", "resources/read")
"""The methods whose handlers may ask."""


def _is_error(result: Any) -> bool:
    """Whether the result of a tool, a model or a mapping, is an error."""
    found = result.get("isError") if isinstance(result, Mapping) else getattr(result, "is_error", None)
    return found is True


def _name(slot: Slot) -> str:
    """The name of the tool or the prompt, or the URI of the resource."""
    return slot.handler.describe()["target"] if slot.tool == _RESOURCES else slot.tool


def _ended(slot: Slot, answer: RequestEnd) -> dict[str, Any] | None:
    """How a round ended, as fields of a `RoundLine`; None if it did not end here."""
    if answer is None:
        return {"how": "left"}
    if isinstance(answer, MalformedAnswer):
        return {"how": "refused", "error": "malformed_answer"}
    if isinstance(answer, Parked):
        return {"how": "parked", **_question(answer.questions)}
    if isinstance(answer, fx.Refusal):
        return {"how": "refused", "error": answer.reason.value}
    if not isinstance(answer, Ended):
        return None
    outcome = answer.outcome
    if isinstance(outcome, HandlerOutcome) and outcome.error is None and is_input_required(result := outcome.value()):
        return {"how": "returned", **_question(_returned(result))}
    ending = slot.handler.ending(outcome)
    if ending == COMPLETED:
        return {"how": "finished"}
    return {"how": "failed", "error": ending.error, "place": ending.place}


def _question(questions: Mapping[str, Any]) -> dict[str, Any]:
    """The first of a round's questions, by key in their wire form, as fields of a `RoundLine`."""
    first: Any = next(iter(questions.values()), None)
    if not isinstance(first, Mapping):
        return {}
    text = str((first.get("params") or {}).get("message") or first.get("method") or "")
    if len(text) > MAX_QUESTION_CHARACTERS:
        text = f"{text[: MAX_QUESTION_CHARACTERS - 3]}..."
    return {"asked": text, "more": len(questions) - 1}


def _returned(result: Any) -> Mapping[str, Any]:
    """The questions that a handler has returned, by key in their wire form."""
    shown = result if isinstance(result, Mapping) else result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return shown.get("inputRequests") or {}
