"""The example server of the conformance run: every question is a plain await in the middle of a handler.

No handler here knows which protocol revision it serves, none reads `input_responses`, none returns an
`InputRequiredResult`. The suite's tools about request state need nothing else: the state is Framehold's token.

Where the suite presents an answer with the first request, without a token, it names the key; those questions are asked
with `framehold.ask(key, ...)` or on `ctx.session.keyed(key)`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.types import CreateMessageResult, SamplingMessage, TextContent
from pydantic import BaseModel, Field
from starlette.applications import Starlette

import framehold
from tests.conformance import content
from tests.conformance.event_log import EventLog
from tests.kit.promised import promised


class ResumableServer(MCPServer[Any]):
    """An MCPServer whose 2025-era streams can be resumed: the suite closes one in the middle of a call."""

    def streamable_http_app(self, **options: Any) -> Starlette:
        """As the base class, with an event store and a short retry hint (ms)."""
        return super().streamable_http_app(**{"event_store": EventLog(), "retry_interval": 100, **options})


mcp = ResumableServer("framehold-conformance", version="1", tools=[content.schema_tool()])
content.install(mcp)


class Name(BaseModel):
    name: str


class Colour(BaseModel):
    color: str


class Consent(BaseModel):
    ok: bool


class Background(BaseModel):
    context: str


class Reply(BaseModel):
    response: str = Field(description="Whatever you like")


class Profile(BaseModel):
    """One field of each primitive type, each with a default."""

    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def _titled(*values: str) -> list[Any]:
    return [{"const": value, "title": value.title()} for value in values]


class Choices(BaseModel):
    """One field for each way to write a choice."""

    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": _titled("value1", "value2")})
    legacyEnum: str = Field(json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["One", "Two"]})
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2"]}})
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": _titled("value1", "value2")}})


def _say(text: str) -> list[SamplingMessage]:
    return [SamplingMessage(role="user", content=TextContent(type="text", text=text))]


def _said(result: CreateMessageResult) -> str:
    return result.content.text if isinstance(result.content, TextContent) else f"[{result.content.type}]"


# Both revisions


@mcp.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Put the given question to the user."""
    answer = await ctx.elicit(message, Reply)
    return f"{answer.action}: {answer.data.response if answer.action == 'accept' else 'nothing'}"


@mcp.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Ask with a form whose fields all have defaults."""
    answer = await ctx.elicit("Your profile?", Profile)
    return answer.model_dump_json()


@mcp.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Ask with a form of choices."""
    answer = await ctx.elicit("Which ones?", Choices)
    return answer.model_dump_json()


@mcp.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Put the given prompt to the client's model."""
    # On 2025-11-25 the id puts the request on this call's stream; without it, on one that may not be open.
    result = await ctx.session.create_message(_say(prompt), max_tokens=100, related_request_id=ctx.request_id)
    return _said(result)


# 2026-07-28


@mcp.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str:
    """Greet the user by a name that only the user knows."""
    answer = await framehold.ask("user_name", "What is your name?", Name)
    return f"Hello, {answer.data.name}!" if answer.action == "accept" else "Hello, whoever you are!"


@mcp.tool()
async def test_input_required_result_sampling(ctx: Context) -> str:
    """Ask the client's model for a capital."""
    return _said(await ctx.session.create_message(_say("What is the capital of France?"), max_tokens=100))


@mcp.tool()
async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Count the folders that the client shares."""
    found = await ctx.session.list_roots()
    return f"{len(found.roots)} folder(s)"


@mcp.tool()
async def test_input_required_result_request_state(ctx: Context) -> str:
    """Ask for consent; only a genuine state leads to the last line."""
    answer = await ctx.elicit("Shall I go on?", Consent)
    return f"state-ok: {answer.action}"


@mcp.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """As above; the suite alters the state and must be refused."""
    answer = await ctx.elicit("Shall I go on?", Consent)
    return f"state-ok: {answer.action}"


@mcp.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Ask the user, the model and the client's folder list in one round."""
    name, greeting, folders = await asyncio.gather(
        framehold.ask("user_name", "What is your name?", Name),
        ctx.session.keyed("greeting").create_message(_say("Write a greeting."), max_tokens=50),
        ctx.session.keyed("client_roots").list_roots(),
    )
    return f"{name.action}, {_said(greeting)}, {len(folders.roots)} folder(s)"


@mcp.tool()
async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Ask twice, the second time knowing the first answer."""
    first = await framehold.ask("step1", "Step 1: what is your name?", Name)
    if first.action != "accept":
        return "No name, no colour."
    second = await framehold.ask("step2", f"Step 2: which colour does {first.data.name} like?", Colour)
    return f"{first.data.name} likes {second.data.color}." if second.action == "accept" else "No colour."


@mcp.tool()
async def test_input_required_result_capabilities(ctx: Context) -> str:
    """Ask only what this client can answer."""
    can = ctx.client_capabilities
    asks = []
    if can is None or can.sampling is not None:
        asks.append(ctx.session.create_message(_say("Say hello."), max_tokens=50))
    if can is None or can.elicitation is not None:
        asks.append(ctx.elicit("What is your name?", Name))
    return f"{len(await asyncio.gather(*asks))} answer(s)"


@mcp.prompt()
async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage]:
    """A prompt that needs to know more before it can be written."""
    answer = await framehold.ask("user_context", "What should the prompt know?", Background)
    return [UserMessage(f"Knowing this: {answer.data.context if answer.action == 'accept' else 'nothing'}")]


@mcp.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Sample, whatever the client declared: one that cannot must get error -32021, and status 400."""
    return _said(await ctx.session.create_message(_say("Are you there?"), max_tokens=10))


@mcp.tool()
async def test_streaming_elicitation(ctx: Context) -> str:
    """Ask in the middle of a stream: the question must come as a result, never as a request."""
    await ctx.report_progress(1, 2, "about to ask")
    answer = await ctx.elicit("Go on?", Consent)
    return answer.action


# Nothing here has an effect but on its response: held, rehearsed or replayed, the suite must see the same.
promised(mcp)
