"""`framehold call` at a terminal: a person answers, gives up, or waits for a server that is away."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

import framehold as public
from framehold.config import Settings
from tests.cli.desk import Person, server
from tests.kit.nodes import KEY, served

pytestmark = pytest.mark.anyio


async def test_a_person_answers(desk: str) -> None:
    with Person(desk, "pick", "count=1", "label=x") as person:
        await person.sees("Fruit")
        person.types("plum\n")
        await person.sees("please answer apple or pear")
        person.types("apple\n")
        await person.sees("(y | n) [y]: ")
        person.types("\n")
        await person.sees("accept {'fruit': ['apple'], 'ripe': True}")
        assert await person.leaves() == 0


async def test_ctrl_d_cancels(desk: str) -> None:
    """Ctrl-D cancels the question and not the program: the tool still returns its result."""
    with Person(desk, "pick", "count=1", "label=x") as person:
        await person.sees("Fruit")
        person.types("\x04")
        await person.sees("x/1: cancel")
        assert await person.leaves() == 0


async def test_ctrl_c_stops(desk: str) -> None:
    """Ctrl-C ends the program at once, also in the middle of an input line, with one line and without a traceback."""
    with Person(desk, "pick", "count=1", "label=x") as person:
        await person.sees("commas): ")
        person.types("app")
        await person.sees("app", after="commas): ")
        await person.interrupts()
        await person.sees("framehold: stopped")
        assert await person.leaves() == 130
        assert "Traceback" not in person.seen and "never retrieved" not in person.seen


async def test_a_server_that_goes_away_in_between() -> None:
    """One line says what happened to the call, without the name of an exception. The exit code is 1."""
    settings = Settings(keys=(KEY,), node_id="n1")
    async with AsyncExitStack() as serving:
        url = await serving.enter_async_context(served(public.asgi(server(), settings)))
        with Person(url, "pick", "count=1", "label=x", patience=1) as person:
            await person.sees("Fruit")
            await serving.aclose()
            person.types("apple\n")
            await person.sees("(y | n) [y]: ")
            person.types("\n")
            await person.sees("trying again for 1 s ...")
            await person.sees(
                "framehold: pick came to no result: the server can't be reached; nothing was sent; if its node"
            )
            await person.sees("waits on it until its token expires")
            assert await person.leaves() == 1
            assert "Traceback" not in person.seen and "Error" not in person.seen


async def test_a_server_that_is_briefly_away() -> None:
    """The answer is sent again until a server accepts it. The user has nothing to do."""
    app, away, refused = public.asgi(server(), Settings(keys=(KEY,), node_id="n1")), [False], [0]

    async def sometimes(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or not away[0]:
            await app(scope, receive, send)
            return
        refused[0] += 1
        await send({"type": "http.response.start", "status": 502, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})

    async with served(sometimes) as url:
        with Person(url, "pick", "count=1", "label=x") as person:
            await person.sees("Fruit")
            away[0] = True
            person.types("apple\n")
            await person.sees("(y | n) [y]: ")
            person.types("\n")
            await person.sees("framehold: the server can't be reached; trying again for 15 s ...")
            away[0] = False
            await person.sees("accept {'fruit': ['apple'], 'ripe': True}")
            assert await person.leaves() == 0
    assert refused[0] and person.seen.count("trying again") == 1


async def test_an_empty_line_at_a_required_field(desk: str) -> None:
    """The first empty line only warns, because a second one declines the whole form."""
    with Person(desk, "both") as person:
        await person.sees("Word")
        person.types("\n")
        await person.sees("(required; Enter again declines the whole form)")
        person.types("\n")
        await person.sees("declined")
