"""How the handler of a tool with a plan is entered. It is an `Invocation` without the context of its request: that is
made only if something asks for it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Protocol

from mcp.server.connection import Connection

from framehold_core import journal

from ..code.codes import LoadedCode
from ..frame.asks import NO_ANSWERS
from ..frame.frame import Frame
from .invocation import ARGUMENTS, Invocation
from .marks import Marks
from .plan import Plan
from .session import Ctx, FrameContext
from .token import METHOD
from .tool_shortcut import run, tool_context


class PlannedRequest(Protocol):
    """What a planned call needs of its request."""

    @property
    def connection(self) -> Connection:
        """The connection that the handler begins with."""
        ...

    lifespan_state: Any
    """What the lifespan of the server has yielded."""

    @property
    def ctx(self) -> Ctx:
        """The context of the request."""
        ...


class PlannedCall(Invocation):
    """Enters a tool that has a plan. `given_arguments` are the arguments as the request has them, JSON, and empty if it
    has none, or if its handler was entered with heavy ones; `digest` is that of its token; `principal` is who is signed
    in, and `weight` what the arguments take at most, in bytes; 0 for light ones."""

    __slots__ = ("_plan", "_request", "code", "digest", "given_arguments", "lifetime", "marks", "reentrant")

    # In place of the properties of `Invocation`, which look each of them up.
    code: str
    lifetime: float | None
    marks: Marks
    reentrant: bool

    def __init__(
        self,
        plan: Plan,
        request: PlannedRequest,
        given_arguments: bytes,
        raw: dict[str, Any],
        digest: str,
        principal: str | None,
        weight: int,
    ) -> None:
        # `Invocation.__init__` is not called: it reads all from a context.
        self._plan = plan
        self._request: PlannedRequest | None = request
        self.given_arguments, self._raw, self.digest = given_arguments, raw, digest
        self._handler, self.tool = plan.seam.wrapped, plan.name
        self.marks, self.reentrant, self.lifetime, self.code = plan.marks, plan.reentrant, plan.lifetime, plan.code
        self._ctx = self._params = self._kept = self._marks = self._described = None
        self.principal = principal
        self.prefilled, self.given, self.weight = NO_ANSWERS, b"", weight

    def call_handler(self, frame: Frame, given: bytes) -> Awaitable[Any]:
        request, self._request = self._request, None
        assert request is not None, "a handler is entered once per invocation"
        if given or self._kept is not None:
            self._ctx = request.ctx
            return super().call_handler(frame, given)
        plan, connection, arguments = self._plan, request.connection, self._raw.get("arguments")
        inner = FrameContext(
            session=self.open_session(frame, connection),
            lifespan_context=request.lifespan_state,
            protocol_version=connection.protocol_version,
            method=METHOD,
            params=self.lean(self._raw, plan.arguments) if self.weight else self._raw,
        )
        context = tool_context(plan.server, inner)
        if self.weight:
            self.given_arguments = b""
        return run(plan.tool, context, arguments, plan.validates, plan.renders)

    def describe(self) -> dict[str, str]:
        if self._described is not None:
            return super().describe()
        digest = self._handler.runtime.payloads.sealer.digest
        args = digest(ARGUMENTS + journal.canonical(self._raw.get("arguments") or {}))
        user = {} if self.principal is None else {"principal": self.user_digest()}
        return {**self._plan.described, **user, "code": self.code, "args": args}

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        super().enter_kept(digest, kept, data)
        assert self._marks is not None, "kept code has marks"
        self.marks, self.reentrant, self.lifetime, self.code = self._marks, True, self._marks.ttl, digest
