"""What a process logs: lines for people, or JSON for machines; one for each record, whatever is in it."""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcp.server import MCPServer

from framehold.config import Settings
from framehold_cli.serve.log import FORMAT, Lines, Machines, log

pytestmark = pytest.mark.anyio

HOSTILE = {
    "a line of its own": "x\n2026-11-21 00:00:00,000 ERROR   framehold: forged",
    "carriage return": "x\rforged",
    "NUL": "x\0y",
    "half a pair": "x\ud800y",
    "escapes": "\x1b[2J\x1b]0;title\x07",
    "quotes": '"}, {"level": "error"',
    "line separators": "x\u2028y\u2029z\x85w",
    "turned round": "abc\u202efdp.exe",
    "long": "x" * 100_000,
}


class Log:
    """Records as they would be written."""

    def __init__(self, formatter: logging.Formatter) -> None:
        self._formatter = formatter

    def __call__(self, message: str, *args: Any, **extra: Any) -> str:
        exc_info = sys.exc_info() if sys.exc_info()[0] else None
        record = logging.getLogger("a.logger").makeRecord(
            "a.logger", logging.WARNING, "file.py", 1, message, args, exc_info, extra=extra
        )
        return self._formatter.format(record)


@pytest.fixture
def text() -> Log:
    return Log(Lines(FORMAT))


@pytest.fixture
def machines() -> Callable[..., dict[str, Any]]:
    written = Log(Machines({"node": "node-1"}))

    def told(*args: Any, **extra: Any) -> dict[str, Any]:
        line = written(*args, **extra)
        assert line.isascii() and len(line.splitlines()) == 1
        # As strict as any reader: no NaN, no halves of pairs.
        found: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
        json.dumps(found, ensure_ascii=False).encode()
        return found

    return told


def test_a_json_line_says_when_who_where_and_what(machines: Callable[..., dict[str, Any]]) -> None:
    found = machines("call %s: gone", "0123abcd", call="0123abcd", tool="book", round=2, epoch=1)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", found.pop("time"))
    assert found == {
        "level": "warning",
        "logger": "a.logger",
        "message": "call 0123abcd: gone",
        "node": "node-1",
        "call": "0123abcd",
        "tool": "book",
        "round": 2,
        "epoch": 1,
    }


@pytest.mark.parametrize("hostile", HOSTILE.values(), ids=HOSTILE)
def test_whoever_names_a_tool_or_sends_a_message_forges_no_line(
    text: Log, machines: Callable[..., dict[str, Any]], hostile: str
) -> None:
    """In text control characters are escaped; in JSON what comes back is what was logged, but for halves of pairs."""
    line = text("tool %s failed", hostile)
    assert len(line.splitlines()) == 1 and not re.search("[\x00-\x1f\x7f-\x9f\u2028-\u202e\ud800]", line)
    found = machines("tool %s failed", hostile, tool=hostile, **{hostile[:50]: hostile, "nested": [{hostile: hostile}]})
    shown = hostile.replace("\ud800", "\\ud800")
    assert (found["message"], found["tool"]) == (f"tool {shown} failed", shown)
    assert found["nested"] == [{shown: shown}]


def test_an_exception_is_one_field_or_indented_lines(text: Log, machines: Callable[..., dict[str, Any]]) -> None:
    try:
        raise ValueError("first\n2026-11-21 00:00:00,000 ERROR   framehold: forged\x1b[2J")
    except ValueError:
        first, *rest = text("it failed").splitlines()
        found = machines("it failed")
    assert first.endswith("it failed") and rest[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in rest) and "\x1b" not in "".join(rest)
    assert found["exception"].startswith("Traceback") and found["exception"].endswith("forged\x1b[2J")


class Unshowable:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_fields_that_are_no_json_are_shown_or_named(machines: Callable[..., dict[str, Any]]) -> None:
    circle: list[Any] = []
    circle.append(circle)
    odd = {"huge": 10**5000, "nan": float("nan"), "bytes": b"\xff", "circle": circle, "none": Unshowable(), "ok": None}
    found = machines("odd", time="never", level="debug", logger="other", color_message="\x1b[1m", **odd)
    assert (found["level"], found["logger"], found["message"]) == ("warning", "a.logger", "odd")
    assert found["time"] != "never" and "color_message" not in found
    assert (found["nan"], found["bytes"], found["ok"]) == ("nan", "b'\\xff'", None)
    assert found["none"] == "a Unshowable that can't be shown" and found["huge"] == "a int that can't be shown"


def test_a_text_line_of_a_call_ends_with_the_call(text: Log) -> None:
    assert text("charging", call="0123abcd", tool="book", round=2, epoch=1).endswith(
        ": charging [call 0123abcd, tool book, round 2]"
    )
    assert text("call %s: gone", "0123abcd", call="0123abcd", tool="book", round=2).endswith(": call 0123abcd: gone")
    assert text("it is gone", call="0123abcd", node="node-1").endswith(": it is gone [call 0123abcd]")
    assert text("of an author's", call=7).endswith(": of an author's")
    forged = text("charging", call="0123abcd", tool="x\n2026-11-21 ERROR framehold: forged")
    assert len(forged.splitlines()) == 1


def test_all_loggers_of_a_process_speak_json(kept_loggers: None, capsys: pytest.CaptureFixture[str]) -> None:
    """The SDK's, uvicorn's and FastMCP's, which bring handlers of their own, and Python's warnings."""
    for name in ("uvicorn", "uvicorn.error", "fastmcp"):
        logging.getLogger(name).setLevel(logging.NOTSET)
        logging.getLogger(name).addHandler(logging.StreamHandler())
        logging.getLogger(name).propagate = False
    log(Settings(node_id="node-7", log_format="json"), node="node-7")
    names = ["mcp.server", "uvicorn.error", "fastmcp.server", "framehold.engine.runtime", "asyncio"]
    for name in names:
        logging.getLogger(name).error("one\nmessage")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("old", stacklevel=1)
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in err.splitlines()]
    assert out == "" and [line["logger"] for line in found] == [*names, "py.warnings"]
    assert {line["node"] for line in found} == {"node-7"}


def test_what_the_author_has_put_on_the_root_logger_stays(kept_loggers: None, tmp_path: Path) -> None:
    logging.root.handlers = []
    logging.basicConfig(filename=tmp_path / "author.log", level=logging.DEBUG, format="AUTHOR %(message)s")
    (own,) = logging.root.handlers
    log(Settings(node_id="n", log_level="warning"), node="n")
    logging.getLogger("mine").debug("of the author's")
    logging.getLogger("framehold").warning("of the node's")
    assert own in logging.root.handlers and len(logging.root.handlers) == 2
    own.close()
    assert (tmp_path / "author.log").read_text().splitlines() == ["AUTHOR of the author's", "AUTHOR of the node's"]


def test_only_plain_text_on_the_terminal_gives_way(kept_loggers: None, capsys: pytest.CaptureFixture[str]) -> None:
    """That of `basicConfig()`, and what MCPServer adds where there is nothing: else each line would come twice."""

    def plain() -> None:
        logging.basicConfig()

    def sdk() -> None:
        MCPServer("any")

    for add in (plain, sdk):
        logging.root.handlers = []
        add()
        assert len(logging.root.handlers) == 1, "it is told apart by what it is"
        log(Settings(node_id="n"), node="n")
        (only,) = logging.root.handlers
        assert isinstance(only.formatter, Lines)
        logging.getLogger("mine").info("once")
        logging.getLogger("mine").debug("not at all")
        assert capsys.readouterr().err.count("once") == 1


def test_a_format_of_the_authors_own_on_the_terminal_is_the_only_one(
    kept_loggers: None, capsys: pytest.CaptureFixture[str]
) -> None:
    class Own(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return f"<{record.getMessage()}>"

    handler = logging.StreamHandler()
    handler.setFormatter(Own())
    logging.root.handlers = [handler]
    log(Settings(node_id="n", log_format="json"), node="n")
    logging.getLogger("mine").warning("once")
    assert logging.root.handlers == [handler] and capsys.readouterr().err == "<once>\n"
