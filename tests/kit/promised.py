"""The promise of re-entrancy, made for a program from outside: its text stays as it is.

The tutorial programs have no effects but their questions, so whoever reads them may promise that they can be entered
again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp.server import MCPServer, Server
from mcp_types.methods import INPUT_REQUIRED_METHODS

import framehold


def promised(server: MCPServer[Any] | Server[Any]) -> MCPServer[Any] | Server[Any]:
    """Mark every handler of `server`; the server itself."""
    for fn in _functions(server):
        framehold.reentrant(fn)
    return server


def _functions(server: MCPServer[Any] | Server[Any]) -> Iterator[Any]:
    if isinstance(server, MCPServer):
        yield from (tool.fn for tool in server._tool_manager.list_tools())
        yield from (prompt.fn for prompt in server._prompt_manager.list_prompts())
        yield from (template.fn for template in server._resource_manager.list_templates())
        return
    for method in sorted(INPUT_REQUIRED_METHODS):
        entry = server.get_request_handler(method)
        if entry is not None:
            yield entry.handler
