"""An exception of an author's handler by its class and its place, and never by what it says."""

from __future__ import annotations

import json
import sysconfig
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError

from framehold.telemetry.raised_at import RaisedAt, raised_at
from framehold.telemetry.stacks import MAX_NAME_CHARACTERS

SITE = f"{sysconfig.get_path('purelib')}"
SECRET = "what a user typed"


def module(name: str, source: str, file: str) -> dict[str, Any]:
    """The names of a module that stands in `file`."""
    names: dict[str, Any] = {"__name__": name}
    exec(compile(source, file, "exec"), names)
    return names


BOOK = """
def book(helper=None):
    if helper is not None:
        return helper()
    raise KeyError("what a user typed")


class Desk:
    def book(self):
        try:
            book()
        except KeyError as error:
            raise LookupError("what a user typed") from error
"""
CALL = "def call(fn, *args):\n    return fn(*args)\n"
AUTHORS = module("weather.book", BOOK, "/srv/app/weather/book.py")
INSTALLED = module("company.weather", BOOK, f"{SITE}/company/weather.py")
SDK = module("mcp.server.runner", CALL, f"{SITE}/mcp/server/runner.py")["call"]
HTTP = module("httpx.client", "class Broken(Exception): ...\ndef get():\n    raise Broken()\n", f"{SITE}/httpx.py")
THREADS = module("anyio.to_thread", CALL, f"{SITE}/anyio/to_thread.py")["call"]


def caught(fn: Callable[..., Any], *args: Any) -> BaseException:
    with pytest.raises(BaseException) as info:
        fn(*args)
    # Without the frame of this function, which is no handler's.
    return info.value.with_traceback(info.tb.tb_next)


def wrapped(cause: BaseException, kind: type[Exception] = UnexpectedToolError) -> BaseException:
    """As the SDK wraps what a tool raised."""

    def wrap() -> None:
        raise kind("Error executing tool book") from cause

    return caught(SDK, wrap).with_traceback(None)


def test_it_is_the_line_that_raised() -> None:
    assert raised_at(caught(SDK, AUTHORS["book"])) == RaisedAt("KeyError", "weather.book:book:5")
    assert raised_at(caught(SDK, AUTHORS["Desk"]().book)) == RaisedAt("LookupError", "weather.book:Desk.book:13")


def test_it_is_the_authors_line_where_a_library_raised() -> None:
    """Which is the one that called the library."""
    assert raised_at(caught(SDK, AUTHORS["book"], HTTP["get"])) == RaisedAt(
        "httpx.client.Broken", "weather.book:book:4"
    )
    found = raised_at(caught(SDK, AUTHORS["book"], partial(json.loads, "{")))
    assert found == RaisedAt("json.decoder.JSONDecodeError", "weather.book:book:4")


@pytest.mark.parametrize("through", [SDK, THREADS], ids=["on the loop", "in a thread"])
def test_an_installed_server_is_the_package_that_the_sdk_called(through: Callable[..., Any]) -> None:
    """Servers in images are packages as any other."""
    assert raised_at(caught(SDK, through, INSTALLED["book"])).place == "company.weather:book:5"
    assert raised_at(caught(SDK, through, INSTALLED["book"], HTTP["get"])).place == "company.weather:book:4"


def test_what_the_sdk_wraps_is_looked_through() -> None:
    """One that the author raised on purpose is not, and a cause that the author gave stays a cause."""
    expected = RaisedAt("KeyError", "weather.book:book:5")
    assert raised_at(wrapped(caught(SDK, AUTHORS["book"]))) == expected
    assert raised_at(wrapped(wrapped(caught(SDK, AUTHORS["book"])), ToolError)) == expected

    def refuse() -> None:
        raise ToolError(SECRET) from ValueError(SECRET)

    found = raised_at(wrapped(caught(SDK, refuse), ToolError))
    assert found.error == "mcp.server.mcpserver.exceptions.ToolError" and f":{refuse.__qualname__}:" in found.place


def test_of_a_group_it_is_the_first() -> None:
    def both() -> None:
        raise ExceptionGroup(SECRET, [caught(AUTHORS["book"]), ValueError(SECRET)])  # type: ignore[list-item]

    assert raised_at(caught(SDK, both)) == RaisedAt("KeyError", "weather.book:book:5")


def test_without_a_line_of_the_authors_there_is_no_place() -> None:
    """As for arguments that don't validate."""
    assert raised_at(caught(SDK, int, "x")) == RaisedAt("ValueError", "")
    assert raised_at(ValueError(SECRET)) == RaisedAt("ValueError", "")


def test_a_circle_of_causes_ends() -> None:
    one, two = ToolError("one"), ToolError("two")
    one.__cause__, two.__cause__ = two, one
    assert raised_at(one).place == ""


def test_names_are_fit_to_print_and_short() -> None:
    hostile = module("we\nath\x1b[31mer" + "x" * 500, BOOK, "/srv/app/weather.py")
    kind = type("Bad\nName" + "x" * 500, (Exception,), {})

    def fails() -> None:
        raise kind

    place = raised_at(caught(SDK, hostile["book"])).place
    assert place.isprintable() and len(place) <= MAX_NAME_CHARACTERS and place.endswith(":5")
    error = raised_at(caught(SDK, fails)).error
    assert error.isprintable() and len(error) <= MAX_NAME_CHARACTERS
