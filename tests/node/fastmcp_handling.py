"""The example of FastMCP behind a middleware that makes errors of all that it sees."""

from __future__ import annotations

from fastmcp.server.middleware.error_handling import ErrorHandlingMiddleware

from examples.fastmcp_booking import mcp

mcp.add_middleware(ErrorHandlingMiddleware())
