"""Makes commands to paste into a shell: a call of a tool by `framehold call`, and its first round by curl."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    encode_header_value,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp.types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY, Tool

from framehold.config import started_by_uv

from ..client import addresses
from ..serve import program as absolute
from . import samples

VERSION = "2026-07-28"


def program() -> list[str]:
    """The words that run this installation of `framehold` in a shell: its name if PATH finds it, else its path.

    Under `uvx` and `uv run` it is the path: other shells don't have the PATH of this process."""
    beside, on_path = absolute.beside(), None if started_by_uv() else shutil.which("framehold")
    if not beside.is_file():
        return absolute.absolute()
    if on_path is not None and Path(on_path).resolve() == beside.resolve():
        return ["framehold"]
    try:
        near = beside.relative_to(Path.cwd())
    except ValueError:
        return [str(beside)]
    return [str(near) if len(near.parts) > 1 else f"./{near}"]


def call(tool: Tool, url: str) -> str:
    """The command line that calls `tool` at `url` with sample arguments, and asks its questions at the terminal."""
    words = [f"{key}={_typeable(value)}" for key, value in samples.arguments(tool.input_schema).items()]
    name = [tool.name] if not tool.name.startswith("-") else ["--", tool.name]
    return shlex.join([*program(), "call", *addresses.options(url), *name, *words])


def nodes(url: str) -> str:
    """The command line that lists the nodes of the router at `url`."""
    return shlex.join([*program(), "nodes", *addresses.options(url)])


def curl(tool: Tool, url: str) -> str:
    """The curl command that sends the first round of a call of `tool` to `url`."""
    arguments = samples.arguments(tool.input_schema)
    headers = {MCP_NAME_HEADER: encode_header_value(tool.name)}
    headers |= mcp_param_headers(x_mcp_header_map(tool.input_schema), arguments)
    return _curl(url, "tools/call", {"name": tool.name, "arguments": arguments}, headers)


def curl_tools(url: str) -> str:
    """The curl command that lists the tools at `url`."""
    return _curl(url, "tools/list", {}, {})


def _curl(url: str, method: str, params: Mapping[str, Any], headers: Mapping[str, str]) -> str:
    identity = {
        PROTOCOL_VERSION_META_KEY: VERSION,
        CLIENT_INFO_META_KEY: {"name": "curl", "version": "1"},
        CLIENT_CAPABILITIES_META_KEY: {"elicitation": {"form": {}}},
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": identity}}
    all_headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        MCP_PROTOCOL_VERSION_HEADER: VERSION,
        MCP_METHOD_HEADER: method,
        **headers,
    }
    lines = ["curl -sS " + shlex.quote(url)]
    lines += [f"-H {_quoted(f'{name}: {value}')}" for name, value in all_headers.items()]
    lines.append("-d " + _quoted(json.dumps(body, ensure_ascii=False)))
    return " \\\n  ".join(lines)


def _quoted(text: str) -> str:
    """Quote text for a shell. All texts are quoted, also those that need no quotes, so that their ends are easy to
    see."""
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _typeable(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def indented(lines: Sequence[str]) -> str:
    """Indent commands for printing. A shell ignores the indentation."""
    return "\n".join("  " + line for text in lines for line in text.split("\n"))
