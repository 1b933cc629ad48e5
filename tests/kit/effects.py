"""What tests of effects have in common: effects that say what ran, and the ways in which a call may run."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import pytest

from tests.kit.client import Reply
from tests.kit.serving import Served

WAYS = {"held": {}, "rebuilt": {"rehearse": True}, "replayed": {"strategy": "replay"}}
each_way = pytest.mark.parametrize("settings", WAYS.values(), ids=WAYS.keys())
SOON = 30.0
"""Seconds that something which needs no time may take on a busy machine."""


class Effects:
    """What really ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []
        self.started, self.go = asyncio.Event(), asyncio.Event()

    def note(self, what: str = "it") -> list[str]:
        self.ran.append(what)
        return [what]

    async def held(self, what: str = "it") -> list[str]:
        """Runs until it is let go."""
        self.ran.append(what)
        self.started.set()
        await self.go.wait()
        return [what]


async def failure(work: Any) -> BaseException:
    """What an awaitable raises."""
    try:
        await work
    except BaseException as error:
        return error
    raise AssertionError("it raised nothing")


class Own(Exception):
    """An exception of the author's."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


async def completed(caller: Served, tool: str, **arguments: Any) -> Reply:
    """Answer each question with `<question>` until the tool has an end."""
    reply = await caller.call(tool, arguments=arguments)
    while reply.message.get("result", {}).get("resultType") == "input_required":
        answers = {
            key: {"action": "accept", "content": {"word": f"<{asked['params']['message']}>"}}
            for key, asked in reply.asked.items()
        }
        reply = await caller.retry(tool, reply.token, answers, arguments=arguments)
    return reply


def raise_first_from_last() -> NoReturn:
    """Raise a ValueError, "first try", whose causes form a ring with an OSError."""
    tries: list[Exception] = []
    try:
        try:
            raise ValueError("first try")
        except ValueError as error:
            tries.append(error)
            raise OSError("second try")  # noqa: B904 - so it has a context, and no cause
    except OSError as error:
        tries.append(error)
    raise tries[0] from tries[1]
