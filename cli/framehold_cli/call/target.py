"""What `framehold call` calls: a tool, a prompt or a resource of a server, by the official client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.types import CallToolResult, GetPromptResult, Prompt, ReadResourceResult

from framehold_core.errors import ConfigError

from . import samples

Result = CallToolResult | GetPromptResult | ReadResourceResult
_READ = "resources/read"
MAX_PAGES = 1000
"""Pages of a list that are read at most."""


class TargetKind(StrEnum):
    """What may be called."""

    TOOL = "tool"
    PROMPT = "prompt"
    RESOURCE = "resource"


@dataclass(frozen=True)
class CallTarget:
    """A tool or a prompt by its name, or a resource by its URI."""

    kind: TargetKind
    name: str

    @classmethod
    def of(cls, words: Sequence[str], prompt: str | None, resource: str | None) -> tuple[CallTarget, Sequence[str]]:
        """The target that a command line names, and the words for its arguments. Without `prompt` and `resource` the
        first word names a tool.

        Raises:
            ConfigError: nothing is named, or more than one target.
        """
        if prompt is not None and resource is not None:
            raise ConfigError("--prompt and --resource name two targets; nothing was called; give one of them")
        if prompt is not None:
            return cls(TargetKind.PROMPT, prompt), words
        if resource is not None:
            if words:
                raise ConfigError("a resource takes no arguments; nothing was called; write them into its URI")
            return cls(TargetKind.RESOURCE, resource), words
        if not words:
            raise ConfigError(
                "nothing is named; nothing was called; give a tool's name, --prompt NAME or --resource URI; framehold "
                "list shows what there is"
            )
        return cls(TargetKind.TOOL, words[0]), words[1:]

    @property
    def label(self) -> str:
        """Its name in the lists of the router's API."""
        return _READ if self.kind is TargetKind.RESOURCE else self.name

    async def arguments(self, client: Client, words: Sequence[str], url: str) -> dict[str, Any]:
        """Its arguments, from `key=value` words.

        Raises:
            ConfigError: the server at `url` has no such tool or prompt, or the words don't fit it.
            MCPError: the server doesn't list them.
        """
        if self.kind is TargetKind.RESOURCE:
            return {}
        schemas = await _schemas(client, self.kind)
        if self.name in schemas:
            return samples.parsed(words, self.name, schemas[self.name])
        known = ", ".join(schemas) or "none"
        raise ConfigError(
            f"there is no {self.kind} {self.name!r} at {url}; there are: {known}{await self._hint(client)}"
        )

    async def _hint(self, client: Client) -> str:
        """How to call a prompt that has the name which was taken for that of a tool; empty if there is none."""
        if self.kind is not TargetKind.TOOL:
            return ""
        try:
            prompts = await _schemas(client, TargetKind.PROMPT)
        except MCPError:
            return ""
        return f"; it is a prompt: framehold call --prompt {self.name}" if self.name in prompts else ""

    async def send(self, client: Client, arguments: dict[str, Any], last: Mapping[str, Any] | None = None) -> Result:
        """Call it, and answer what it asks. `last`: the parameters of a round that is sent again, instead of a new
        call.

        Raises:
            MCPError: the server answers with an error.
        """
        again = {} if last is None else _again(last)
        if self.kind is TargetKind.TOOL:
            return await client.call_tool(self.name, arguments, **again)
        if self.kind is TargetKind.PROMPT:
            return await client.get_prompt(self.name, arguments, **again)
        return await client.read_resource(self.name, **again)


def _again(last: Mapping[str, Any]) -> dict[str, Any]:
    return {"input_responses": last.get("inputResponses"), "request_state": last["requestState"]}


async def _schemas(client: Client, kind: TargetKind) -> dict[str, Mapping[str, Any]]:
    """The JSON schema of the arguments of each tool, or of each prompt."""
    if kind is TargetKind.TOOL:
        return {tool.name: tool.input_schema async for tool in listed(client.list_tools, "tools")}
    return {prompt.name: prompt_schema(prompt) async for prompt in listed(client.list_prompts, "prompts")}


def prompt_schema(prompt: Prompt) -> dict[str, Any]:
    """The arguments of a prompt as the JSON schema of an object. They are texts."""
    arguments = prompt.arguments or []
    properties = {one.name: {"type": "string", "description": one.description or ""} for one in arguments}
    return {"type": "object", "properties": properties, "required": [one.name for one in arguments if one.required]}


async def listed(page_of: Callable[..., Coroutine[Any, Any, Any]], field: str) -> AsyncIterator[Any]:
    """All items of a list that comes in pages: `page_of` reads one page, which has the items in `field`.

    Raises:
        ConfigError: the list has more than `MAX_PAGES` pages, so it may have no end.
    """
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await page_of(cursor=cursor)
        found = getattr(page, field)
        for item in found:
            yield item
        cursor = page.next_cursor
        if cursor is None or not found:
            return
    raise ConfigError(f"the server's list of {field} has no end after {MAX_PAGES} pages; nothing was called")
