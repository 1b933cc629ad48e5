"""Whose work a stack of frames is: the law of `stacks`, as a table of stacks as they are seen."""

from __future__ import annotations

import functools
import inspect
import json
import sysconfig
from typing import Any

import pytest

from framehold.telemetry.stacks import MAX_NAME_CHARACTERS, CodePlace, authors, frames_above, judge, loop_frame

SITE = "/srv/venv/lib/python3.11/site-packages"


def installed(module: str, function: str = "f") -> CodePlace:
    return CodePlace(module, function, f"{SITE}/{module.replace('.', '/')}.py", 7)


def standard(module: str, function: str = "f") -> CodePlace:
    return CodePlace(module, function, f"{sysconfig.get_path('stdlib')}/{module}.py", 7)


TOOL = CodePlace("weather", "book", "/srv/app/weather.py", 12)
HELPER = CodePlace("weather.prices", "Table.read", "/srv/app/weather/prices.py", 40)
SELECT, TURN, RUN = (
    standard("selectors", "EpollSelector.select"),
    standard("asyncio.base_events", "BaseEventLoop._run_once"),
    standard("asyncio.events", "Handle._run"),
)
LOOP = (RUN, TURN)
JSON = standard("json.encoder", "JSONEncoder.encode")
SDK, PYDANTIC = installed("mcp.server.runner"), installed("pydantic.main", "BaseModel.model_validate")
HTTP, NUMPY, SECRETS = installed("uvicorn.server"), installed("numpy.linalg"), standard("secrets")
FRAME, SLOT = installed("framehold.frame.frame", "Frame.ask"), installed("framehold_core.continuation", "step")
BATCH, REDIS = installed("framehold_store.batch", "BatchLane.send"), installed("redis.asyncio.connection")
MIDDLEWARE = CodePlace("weather.web", "Log.__call__", "/srv/app/weather/web.py", 3)
ASKS, BOOKS, STEPS = FRAME.name, TOOL.name, SLOT.name

STACKS: dict[str, tuple[tuple[CodePlace, ...], str, str]] = {
    "the loop waits for its sockets": ((SELECT, TURN), "idle", ""),
    "nothing stands above a loop that is written in C": ((), "idle", ""),
    "Windows waits likewise": ((standard("asyncio.windows_events"),) * 2 + (TURN,), "idle", ""),
    "a handler that waits by itself keeps the loop from all": ((SELECT, standard("subprocess"), TOOL, *LOOP),
                                                              "handlers", BOOKS),
    "the loop's own work": (LOOP, "other", "asyncio.events.Handle._run:7"),
    "a handler": ((TOOL, SDK, FRAME, *LOOP), "handlers", BOOKS),
    "what a handler calls of its own": ((HELPER, TOOL, SDK, FRAME, *LOOP), "handlers",
                                        "weather.prices.Table.read:40"),
    "what a handler calls of others": ((NUMPY, TOOL, SDK, FRAME), "handlers", BOOKS),
    "json in a handler": ((JSON, standard("json"), TOOL, SDK, FRAME), "handlers", BOOKS),
    "pydantic in a handler": ((PYDANTIC, TOOL, SDK, FRAME), "handlers", BOOKS),
    "a handler's own use of Redis": ((REDIS, TOOL, SDK, FRAME), "handlers", BOOKS),
    "a question that a handler waits for": ((FRAME, SDK, TOOL, SDK, FRAME), "Framehold", ASKS),
    "json for a question": ((JSON, FRAME, SDK, TOOL), "JSON and pydantic", ASKS),
    "the SDK within what Framehold does for a handler": ((SDK, FRAME, TOOL), "MCP SDK", ASKS),
    "the store for an effect that a handler waits for": ((REDIS, BATCH, FRAME, TOOL), "store",
                                                         "framehold_store.batch.BatchLane.send:7"),
    "the core is Framehold": ((SLOT, FRAME, SDK, HTTP), "Framehold", STEPS),
    "an unknown package is its caller's": ((SECRETS, NUMPY, FRAME, HTTP), "Framehold", ASKS),
    "the SDK before a handler runs": ((PYDANTIC, SDK, FRAME, HTTP), "JSON and pydantic",
                                      ASKS),
    "a server's parser": ((HTTP, *LOOP), "HTTP server", "uvicorn.server.f:7"),
    "Framehold behind an author's middleware": ((SLOT, FRAME, MIDDLEWARE, HTTP), "Framehold",
                                                STEPS),
    "an author's middleware": ((standard("re"), MIDDLEWARE, HTTP), "handlers", "weather.web.Log.__call__:3"),
    "a library that nobody knows": ((NUMPY, *LOOP), "other", "numpy.linalg.f:7"),
    "a server of ours that shows how": ((installed("framehold.examples.booking"), SDK, FRAME), "handlers",
                                        "framehold.examples.booking.f:7"),
    "code that was made at run time is its caller's": ((CodePlace("weather", "__init__", "<string>", 2), FRAME),
                                                       "Framehold", ASKS),
    "FastMCP is the SDK's": ((installed("fastmcp.server.server"), HTTP), "MCP SDK", "fastmcp.server.server.f:7"),
    "a name that only begins as a known one": ((installed("jsonlines"), HTTP), "HTTP server", "uvicorn.server.f:7"),
}  # fmt: skip


@pytest.mark.parametrize("name", STACKS)
def test_whose_work_it_is(name: str) -> None:
    stack, part, where = STACKS[name]
    assert judge(stack) == (part, where)


def test_handlers_of_an_installed_server_are_handlers() -> None:
    """Servers in images are packages as any other."""
    stack = (JSON, installed("company.weather", "book"), SDK, FRAME)
    assert judge(stack) == ("JSON and pydantic", ASKS)
    assert judge(stack, frozenset({"company"})) == ("handlers", "company.weather.book:7")


def test_the_packages_of_handlers_are_those_of_their_functions() -> None:
    """Beneath what wraps them; never what is known, or the standard library's."""

    def plain() -> None: ...

    plain.__module__ = "company.weather"
    wrapped = functools.wraps(plain)(lambda: None)

    class Called:
        def __call__(self) -> None: ...

    assert authors([plain, functools.partial(plain), wrapped]) == {"company"}
    assert authors([Called()]) == {Called.__module__.partition(".")[0]}
    assert authors([json.dumps, judge, inspect.unwrap]) == frozenset()


HOSTILE = ["/srv/app/weather.py", "C:\\app\\weather", "we\nath\x1b[31mer", "we\ud800ather", "w\u202eeather", "x" * 500]


def test_a_frame_is_placed_by_the_line_at_which_it_stands() -> None:
    assert TOOL._replace(at=14).where == "weather:book:14"


@pytest.mark.parametrize("module", HOSTILE)
def test_a_name_is_fit_to_print_and_no_path(module: str) -> None:
    place = CodePlace(module, "book", "/srv/app/weather.py", 123, 123)
    for name in (place.name, place.where):
        assert name.isprintable() and len(name) <= MAX_NAME_CHARACTERS and name.endswith(":123")
        assert "/" not in name and "\\" not in name


def test_a_module_whose_name_is_no_text_is_not_asked_for_one() -> None:
    class Odd:
        def __str__(self) -> str:
            raise AssertionError("it ran")

    code = test_a_name_is_fit_to_print_and_no_path.__code__
    assert CodePlace.of((code, {"__name__": Odd()}, 7)).module == "?"
    assert CodePlace.of((code, 0.5, 7)).module == "?", "no namespace at all"


def test_a_stack_ends_above_the_frame_that_runs_the_loop() -> None:
    """Whatever started the loop is no part of what it does."""

    def inner() -> Any:
        here = inspect.currentframe()
        assert here is not None
        return here, here.f_back

    here, base = inner()
    assert [code.co_name for code, _, _ in frames_above(here, base)] == ["inner"]
    assert frames_above(base, base) == [] and frames_above(None, base) == []
    assert loop_frame(base) is base and loop_frame(None) is None
