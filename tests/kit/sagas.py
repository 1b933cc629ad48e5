"""A client of sagas, which answers steps as it is told to and declares no capability."""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from tests.kit.client import Reply, accepted
from tests.kit.serving import serving

Step = dict[str, Any]
saga_stage = partial(serving, sagas=True)
"""A stage whose node serves sagas."""


class Sends(Protocol):
    """What a client of sagas needs of a wire."""

    async def send(self, method: str, params: dict[str, Any], **options: Any) -> Reply: ...


def form(step: Step) -> Step:
    """Fill a form with its question, so that an answer that went astray shows."""
    return done(step, accepted(word=f"<{step['params']['message']}>"))


def done(step: Step, result: Any) -> Step:
    """A step that was completed."""
    return {"stepId": step["stepId"], "result": result}


def failed(step: Step, code: int = -1, message: str = "the user left", **more: Any) -> Step:
    """A step that failed at the client."""
    return {"stepId": step["stepId"], "error": {"code": code, "message": message, **more}}


def steps(reply: Reply) -> list[Step]:
    """What a suspended saga asks."""
    assert reply.result.get("state") == "suspended", reply.message
    found: list[Step] = reply.result["steps"]
    return found


def token(reply: Reply) -> str:
    """The token of a suspended saga."""
    assert reply.result.get("state") == "suspended", reply.message
    return str(reply.result["sagaToken"])


class SagaClient:
    """One saga at a time, its completed steps all sent again with each resume."""

    def __init__(self, wire: Sends, tool: str = "") -> None:
        self.wire, self.tool = wire, tool
        self.completed: list[Step] = []

    async def call(self, tool: str, /, **arguments: Any) -> Reply:
        """Begin a saga."""
        self.completed, self.tool = [], tool
        return await self.wire.send("tools/callSaga", {"name": tool, "arguments": arguments}, has={})

    async def resume(self, reply: Reply | str, *completed: Step) -> Reply:
        """Resume with all steps so far and these."""
        self.completed += completed
        wire = reply if isinstance(reply, str) else token(reply)
        return await self.raw(sagaToken=wire, completedSteps=self.completed)

    async def raw(self, **params: Any) -> Reply:
        """`tools/resumeSaga` with these parameters. It needs the tool's name for its header alone."""
        return await self.wire.send("tools/resumeSaga", {"name": self.tool, **params}, has={})

    async def told(self, tool: str, /, **arguments: Any) -> Reply:
        """A whole saga; each form is filled with its question."""
        reply = await self.call(tool, **arguments)
        while reply.message.get("result", {}).get("state") == "suspended":
            reply = await self.resume(reply, *map(form, steps(reply)))
        return reply
