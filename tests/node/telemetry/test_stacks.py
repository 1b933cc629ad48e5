"""Whose work a stack of frames is, and which line an exception counts for."""

from __future__ import annotations

import functools
import inspect
import json
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError

from framehold.telemetry.failures import failure_of
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


HERE = "tests.node.telemetry.test_stacks"


def raised(fail: Callable[[], Any]) -> Exception:
    try:
        fail()
    except Exception as error:
        return error
    raise AssertionError("it did not fail")


def line(fn: Callable[..., Any], of: int = 1) -> int:
    return fn.__code__.co_firstlineno + of


def divide() -> None:
    print(1 / 0)


def parse() -> None:
    json.loads("{secret")


def deliberate() -> None:
    raise ToolError("it is sold out: 4111 1111")


def cause() -> None:
    try:
        divide()
    except ZeroDivisionError as error:
        raise KeyError("secret") from error


def group() -> None:
    raise ExceptionGroup("several", [raised(divide)])


@pytest.mark.parametrize(
    ("fail", "error", "place"),
    [
        (divide, "ZeroDivisionError", f"{HERE}:divide:{line(divide)}"),
        (parse, "json.decoder.JSONDecodeError", f"{HERE}:parse:{line(parse)}"),
        (deliberate, "mcp.server.mcpserver.exceptions.ToolError", f"{HERE}:deliberate:{line(deliberate)}"),
        (cause, "KeyError", f"{HERE}:cause:{line(cause, 4)}"),
        (group, "ZeroDivisionError", f"{HERE}:divide:{line(divide)}"),
    ],
)
def test_the_class_and_the_innermost_line_of_the_authors(fail: Callable[[], Any], error: str, place: str) -> None:
    """What a library raises counts for the line that called it; a cause that the author gives stays a cause."""
    failure = failure_of(raised(fail))
    assert (failure.error, failure.place) == (error, place)
    assert "secret" not in str(failure) and "4111" not in str(failure)


def sdk(source: str, **names: Any) -> Callable[[], Any]:
    """A function of a module of the SDK's."""
    scope = {"__name__": "mcp.server.mcpserver.tools.base", **names}
    exec(compile(source, "/srv/site-packages/mcp/server/mcpserver/tools/base.py", "exec"), scope)
    run: Callable[[], Any] = scope["run"]
    return run


WRAPS = """
def run():
    try:
        fail()
    except Exception as error:
        raise kind("Error executing tool refund") from error
"""


@pytest.mark.parametrize("kind", [ToolError, UnexpectedToolError, lambda text: MCPError(-1, text)])
def test_what_the_sdk_puts_around_it_is_taken_off(kind: Callable[[str], Exception]) -> None:
    for fail, error in ((divide, "ZeroDivisionError"), (deliberate, "mcp.server.mcpserver.exceptions.ToolError")):
        once = sdk(WRAPS, fail=fail, kind=kind)
        twice = sdk(WRAPS, fail=once, kind=kind)
        failure = failure_of(raised(twice))
        assert failure.error == error and failure.place.startswith(f"{HERE}:{fail.__name__}:")


def test_an_exception_that_no_code_of_the_authors_raised_has_no_place() -> None:
    assert failure_of(MCPError(-1, "it can't be asked")) == ("mcp.shared.exceptions.MCPError", "")


def test_a_server_that_is_an_installed_package_has_places_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "site-packages" / "shop.py"
    module = ModuleType("shop")
    monkeypatch.setitem(sys.modules, "shop", module)
    exec(compile("def refund():\n    return helper()\n\ndef helper():\n    return {}['a']\n", str(source), "exec"),
         module.__dict__)  # fmt: skip
    caught = sdk(
        "def run():\n    try:\n        fail()\n    except Exception as error:\n        return error\n",
        fail=module.refund,
    )
    assert failure_of(caught()).place == "shop:helper:5"


def test_a_long_or_odd_name_of_a_class_is_cut() -> None:
    odd = type("A\n" + "x" * 500, (Exception,), {})
    failure = failure_of(odd())
    assert "\n" not in failure.error and len(failure.error) <= 120


def test_a_circle_of_causes_ends() -> None:
    one, two = ToolError("one"), ToolError("two")
    one.__cause__, two.__cause__ = two, one
    assert failure_of(one).place == ""


def test_what_the_sdk_wraps_in_a_class_of_nobody_is_taken_off_too() -> None:
    """A prompt's exception comes as a ValueError, a resource's as the context of an error of the protocol."""
    without_cause = WRAPS.replace(" from error", "")
    for source, kind in ((WRAPS, ValueError), (without_cause, lambda text: MCPError(-1, text))):
        # Without the frame of this module, which is the author's.
        failure = failure_of(raised(sdk(source, fail=divide, kind=kind)).with_traceback(None))
        assert (failure.error, failure.place) == ("ZeroDivisionError", f"{HERE}:divide:{line(divide)}")


def test_the_thread_that_calls_an_installed_server_is_not_the_server() -> None:
    def module(name: str, source: str) -> dict[str, Any]:
        names: dict[str, Any] = {"__name__": name}
        exec(compile(source, f"/srv/site-packages/{name}.py", "exec"), names)
        return names

    shop = module("shop.desk", "def refund():\n    return {}['a']\n")["refund"]
    thread = module("anyio.to_thread", "def run(fn):\n    return fn()\n")["run"]
    wrapped = raised(sdk(WRAPS, fail=lambda: thread(shop), kind=ToolError))
    # Without the lambda, which is no installed code.
    assert wrapped.__cause__ is not None and wrapped.__cause__.__traceback__ is not None
    wrapped.__cause__.__traceback__ = wrapped.__cause__.__traceback__.tb_next.tb_next  # type: ignore[union-attr]  # two of them
    wrapped.__traceback__ = None
    assert failure_of(wrapped) == ("KeyError", "shop.desk:refund:2")
