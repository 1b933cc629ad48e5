"""The trade-off's tool as it is written for the SDK alone: it returns its question, and is entered again.

| | stands above the guard | stands below it | rides in the state |
| --- | --- | --- | --- |
| e | the fare | both effects | the choices |
| e-naive | the fare, the reservation | the booking | the choices |
| f | the fare, the reservation under `once` | the booking | the choices, and what ran |
| g | no guard: steps, each until it has its data | both effects, in the end | the data of the steps |
| a | as e, of which a shim asks clients of 2025 over their session | as e | nothing: the stream is held |

An effect that is to precede the first question can't stay there in e and g: it waits for the last answer. A trip
that keeps an offer carries it beside these. All states are sealed by the SDK with one key for all servers.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.request_state import RequestStateSecurity
from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

from framehold_loadtest.client.trip import TOOL, result_text
from framehold_loadtest.served import travel
from framehold_loadtest.served.travel import BOOK, RESERVE, Choice

Outcome = str | InputRequiredResult
Tool = Callable[[str, int, Context, int], Awaitable[Outcome]]
_KEY = "way"
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"choice": {"title": "Choice", "type": "string"}},
    "required": ["choice"],
}


def _ask(message: str, state: object) -> InputRequiredResult:
    form = ElicitRequestFormParams(message=message, requested_schema=_SCHEMA)
    return InputRequiredResult(
        input_requests={_KEY: ElicitRequest(params=form)}, request_state=json.dumps(state, separators=(",", ":"))
    )


def _answered(ctx: Context) -> list[str]:
    """This round's answer, if there is one."""
    answer = (ctx.input_responses or {}).get(_KEY)
    if not isinstance(answer, ElicitResult):
        return []
    return [Choice.model_validate(answer.content).choice if answer.action == "accept" else answer.action]


def _state(ctx: Context, empty: Any) -> Any:
    return json.loads(ctx.request_state) if ctx.request_state else empty


def _guarded(call: str, rounds: int, chosen: list[str], *, naive: bool = False) -> str | None:
    """The body of e: a question's text, or None once both effects have happened."""
    travel.entered(call)
    price = travel.fare(call)
    if naive:
        travel.effect(call, RESERVE)
    if len(chosen) < rounds - 1:
        return travel.question(len(chosen) + 1, rounds, price)
    if not naive:
        travel.effect(call, RESERVE)
    travel.effect(call, BOOK)
    return None


def _in_rounds(call: str, rounds: int, ctx: Context, size: int, *, naive: bool) -> Outcome:
    """One round of e, whose state is its choices, with the offer beside them if there is one."""
    state = _state(ctx, [])
    before, offer = (state["chosen"], state["offer"]) if isinstance(state, dict) else (state, travel.offer(call, size))
    chosen = before + _answered(ctx)
    message = _guarded(call, rounds, chosen, naive=naive)
    if message is not None:
        return _ask(message, {"chosen": chosen, "offer": offer} if size else chosen)
    travel.redeem(offer, call, size)
    return result_text(call, chosen)


async def by_guard(call: str, rounds: int, ctx: Context, size: int = 0) -> Outcome:
    """Book a trip in so many rounds."""
    return _in_rounds(call, rounds, ctx, size, naive=False)


async def above_the_guard(call: str, rounds: int, ctx: Context, size: int = 0) -> Outcome:
    """Book a trip in so many rounds."""
    return _in_rounds(call, rounds, ctx, size, naive=True)


async def by_once(call: str, rounds: int, ctx: Context, size: int = 0) -> Outcome:
    """Book a trip in so many rounds."""
    kept = {"offer": travel.offer(call, size)} if size and not ctx.request_state else {}
    state = _state(ctx, {"chosen": [], "ran": [], **kept})
    chosen, ran = state["chosen"] + _answered(ctx), state["ran"]

    def once(name: str) -> None:
        if name not in ran:
            travel.effect(call, name)
            ran.append(name)

    travel.entered(call)
    price = travel.fare(call)
    once(RESERVE)
    if len(chosen) < rounds - 1:
        return _ask(travel.question(len(chosen) + 1, rounds, price), state | {"chosen": chosen, "ran": ran})
    travel.redeem(state.get("offer", ""), call, size)
    once(BOOK)
    return result_text(call, chosen)


async def by_steps(call: str, rounds: int, ctx: Context, size: int = 0) -> Outcome:
    """Book a trip in so many rounds."""
    data = _state(ctx, {})
    if "fare" not in data:
        travel.entered(call, "fare")
        data["fare"] = travel.fare(call)
        data |= {"offer": travel.offer(call, size)} if size else {}
    answer = _answered(ctx)
    for number in range(1, rounds):
        name = f"leg-{number}"
        if name not in data:
            travel.entered(call, name)
            if not answer:
                return _ask(travel.question(number, rounds, data["fare"]), data)
            data[name] = answer.pop()
    travel.entered(call, "end")
    travel.redeem(data.get("offer", ""), call, size)
    travel.effect(call, RESERVE)
    travel.effect(call, BOOK)
    return result_text(call, [data[f"leg-{number}"] for number in range(1, rounds)])


async def by_session(call: str, rounds: int, ctx: Context, size: int = 0) -> Outcome:
    """Book a trip in so many rounds."""
    offer = travel.offer(call, size)
    chosen: list[str] = []
    while (message := _guarded(call, rounds, chosen)) is not None:
        asked = await ctx.elicit(message, Choice)
        chosen.append(asked.data.choice if asked.action == "accept" else asked.action)
    travel.redeem(offer, call, size)
    return result_text(call, chosen)


WAYS: dict[str, Tool] = {
    "e": by_guard,
    "e-naive": above_the_guard,
    "f": by_once,
    "g": by_steps,
    "a": by_session,
}


def server(way: str) -> MCPServer:
    """The SDK's server with the tool written in one of `WAYS`."""
    keys = RequestStateSecurity(keys=[travel.settings.state_key])
    made: MCPServer = MCPServer("trips", log_level="ERROR", request_state_security=keys)
    made.tool(name=TOOL)(WAYS[way])
    return made
