"""One client for servers of both eras: `python examples/client_dual_path.py URL`.

The app gives the SDK one handler that answers questions, and calls one tool. How a question travels is the SDK's
business: a server of 2026-07-28 returns it as a result, and the call is sent again with the answer; a server of
2025-11-25 or before sends it as a request of its own, over the stream of the call. `mcp.Client` asks the server which
it speaks. Nothing below knows, and both print the same.

It books a table with the example that `framehold up` serves.
"""

from __future__ import annotations

import asyncio
import sys

from mcp import Client
from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult, TextContent

WISHES = {"guests": 4, "evening": "saturday", "place": "garden", "candles": True, "name": "Ana"}
"""What a person would type into the forms, by the name of the field."""


async def answer(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Fill in a form; decline whatever is none."""
    print(f"? {params.message}")
    if not isinstance(params, ElicitRequestFormParams):
        return ElicitResult(action="decline")
    form = {field: WISHES[field] for field in params.requested_schema["properties"]}
    for field, value in form.items():
        print(f"  {field}: {value}")
    return ElicitResult(action="accept", content=form)


async def main(url: str) -> int:
    async with Client(url, elicitation_callback=answer) as client:
        result = await client.call_tool("book", {"restaurant": "Luna"})
    for block in result.content:
        if isinstance(block, TextContent):
            print(f"= {block.text}")
    return 1 if result.is_error else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/client_dual_path.py URL, for example http://127.0.0.1:8080/mcp")
    sys.exit(asyncio.run(main(sys.argv[1])))
