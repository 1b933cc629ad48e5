"""`framehold list`: what a server has, with the marks of its handlers.

A server's own lists have no marks. The router has them from its nodes. It is asked with the admin token of a
`framehold up` on this machine, or with one that the user gave; else without, as routers without tokens answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from httpx2 import codes
from mcp import Client
from mcp.shared.exceptions import MCPError

from framehold_core.errors import ConfigError
from framehold_fleet.models.nodes import HandlerView, NodesView

from ..client import addresses, local_fleets
from ..client.api import ApiClient, ApiRefused
from ..client.patient import PatientClient
from ..show.sheet import Grid, Sheet
from .connection import Endpoint, connected
from .target import listed, prompt_schema

_UNMARKED = "The marks are not known: {}."
_REFUSED = "they come from the router, which wants its admin token (--admin-token, or --api and FRAMEHOLD_ADMIN_TOKEN)"
_MAX_TEXT = 80
"""Characters of a description that are shown."""


@dataclass(frozen=True)
class _List:
    """One list of a server: its name in JSON and above its table, the kind of its items in a mark's name, and the field
    of an item that names it."""

    name: str
    kind: str
    named_by: str


_LISTS = (
    _List("tools", "tool", "name"),
    _List("prompts", "prompt", "name"),
    _List("resources", "resource", "uri"),
    _List("templates", "resource", "uriTemplate"),
)


def sheet(server: Endpoint, admin_token: str | None) -> Sheet:
    """A sheet of all that a server has.

    Raises:
        ConfigError: no MCP server answers, or it refuses the caller.
    """
    found = asyncio.run(_read(server))
    marks, unknown = _marks(server.router, admin_token)
    data = {one.name: [_item(item, one, marks) for item in found[one.name]] for one in _LISTS}
    parts: list[Grid | str] = [_grid(one, data[one.name]) for one in _LISTS if data[one.name]]
    if not parts:
        parts.append(f"{server.url} lists no tool, no prompt and no resource.")
    elif unknown:
        parts.append(_UNMARKED.format(unknown))
    return Sheet(parts, data)


async def _read(server: Endpoint) -> dict[str, list[dict[str, Any]]]:
    async with connected(server, PatientClient(lambda _: None, **server.http_options)) as client:
        return {
            "tools": await _items(client, "tools"),
            "prompts": await _items(client, "prompts"),
            "resources": await _items(client, "resources"),
            "templates": await _items(client, "resource_templates"),
        }


async def _items(client: Client, field: str) -> list[dict[str, Any]]:
    """The items of one list as JSON; none if the server does not serve such a list. The arguments of a prompt are a
    schema, like those of a tool."""
    found = []
    try:
        async for item in listed(getattr(client, f"list_{field}"), field):
            shown: dict[str, Any] = item.model_dump(mode="json", by_alias=True, exclude_none=True)
            if field == "prompts":
                shown["inputSchema"] = prompt_schema(item)
            found.append(shown)
    except MCPError:
        return []
    return found


def _marks(url: str, admin_token: str | None) -> tuple[dict[str, HandlerView], str]:
    """The marks of the handlers by kind and name, as in `tool "book"`; and why they are not known, if they aren't."""
    token = admin_token or local_fleets.admin_token(url)
    try:
        with ApiClient(addresses.base(url), token, addresses.OTHER_API) as api:
            nodes = api.get("nodes", NodesView).view.nodes
    except ConfigError as error:
        is_shut = not token and isinstance(error, ApiRefused) and error.status == codes.UNAUTHORIZED
        return {}, _REFUSED if is_shut else str(error)
    return {one.handler: one for node in nodes for one in node.handlers}, ""


def _item(item: dict[str, Any], of: _List, marks: Mapping[str, HandlerView]) -> dict[str, Any]:
    """An item with its marks. A handler that has none is not async: it can't ask, and needs no mark. Where no marks are
    known at all, none are added."""
    mark = marks.get(f'{of.kind} "{item[of.named_by]}"')
    if not marks:
        return item
    return {**item, "reentrant": mark is not None and mark.reentrant, "asks": mark is not None and mark.asks}


def _grid(of: _List, items: Sequence[Mapping[str, Any]]) -> Grid:
    has_arguments = of.name in ("tools", "prompts")
    rows = []
    for item in items:
        takes = [_takes(item)] if has_arguments else []
        rows.append([str(item[of.named_by]), *takes, _marked(item), _about(item)])
    heads = (of.name.upper(), *(["TAKES"] if has_arguments else []), "MARKS", "")
    return Grid(heads, rows)


def _takes(item: Mapping[str, Any]) -> str:
    """The names of the arguments; those that may be left out are in brackets."""
    schema = item.get("inputSchema") or {}
    required = schema.get("required") or ()
    return ", ".join(name if name in required else f"[{name}]" for name in schema.get("properties") or ())


def _marked(item: Mapping[str, Any]) -> str:
    words = (("re-entrant", "reentrant"), ("asks", "asks"))
    return ", ".join(word for word, field in words if item.get(field))


def _about(item: Mapping[str, Any]) -> str:
    """The first line of the description."""
    text = str(item.get("description") or item.get("title") or "").strip().partition("\n")[0]
    return text if len(text) <= _MAX_TEXT else f"{text[: _MAX_TEXT - 3]}..."
