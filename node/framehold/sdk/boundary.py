"""The SDK's boundary, for which arguments are equal that are equal in JSON.

The boundary binds a request state to a digest of the arguments as they are written. A gateway that encodes a request
again writes 1 for 1.0, or 1e2 for 100: the client's own arguments would be refused. Here the digest is made of
arguments in which each number is written in one way. The handler gets them as they came.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mcp.server.request_state import RequestStateBoundary

from framehold_core import journal

from .session import Ctx


class Boundary(RequestStateBoundary):
    """Seals and opens request states, as the SDK's does."""

    def sealed(self, ctx: Ctx, result: dict[str, Any]) -> dict[str, Any]:
        """A result whose state, if it has one, is sealed for the request of `ctx`."""
        return self._seal_result(ctx, result, None)  # type: ignore[return-value]

    def _unseal(self, ctx: Ctx) -> Any:
        return super()._unseal(_in_one_way(ctx))

    def _seal(self, ctx: Ctx, state: str, binding: Any = None) -> str:
        return super()._seal(_in_one_way(ctx) if binding is None else ctx, state, binding)


def _in_one_way(ctx: Ctx) -> Ctx:
    """The same context, with arguments in which each number is written in one way."""
    given = (ctx.params or {}).get("arguments")
    written = journal.in_one_way(given)
    return ctx if written is given else replace(ctx, params={**(ctx.params or {}), "arguments": written})
