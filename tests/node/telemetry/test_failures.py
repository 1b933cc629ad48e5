"""Which class and which line an exception counts for, however libraries and the SDK wrap it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp.server.mcpserver.exceptions import ToolError, UnexpectedToolError
from mcp.shared.exceptions import MCPError

from framehold.telemetry.failures import failure_of

HERE = "tests.node.telemetry.test_failures"


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
