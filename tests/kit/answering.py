"""Who answers the tool `three`: the official client's callback, and what the tool says to it at its end."""

from __future__ import annotations

import asyncio

from mcp.client import ClientRequestContext
from mcp.types import ElicitRequestFormParams, ElicitRequestParams, ElicitResult


def expected(name: str) -> str:
    """What the tool `three` says at its end, to a client that answers with its questions."""
    first = f"<{name}, a secret question?>"
    second = f"<{name}, after {first}?>"
    return f"{name}: {first} {second} <{name}, after {second}?>"


async def echo(context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
    """Answers with the question, so that an answer that went astray shows."""
    assert isinstance(params, ElicitRequestFormParams)
    await asyncio.sleep(0)
    return ElicitResult(action="accept", content={"word": f"<{params.message}>"})
