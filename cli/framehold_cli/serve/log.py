"""The log of a process of a fleet, on standard error: text lines, or JSON objects (FRAMEHOLD_LOG_FORMAT).

The law: each record is one line, whatever it contains. So the name of a tool, or a message of a client, can't forge a
second line, and can't break a reader of the log. A traceback follows its line, indented; in JSON it is a field. All
loggers of the process use this format, also those of the SDK, FastMCP and uvicorn.
"""

from __future__ import annotations

import json
import logging
import math
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from framehold_fleet.config import FleetSettings
from framehold_fleet.telemetry.log_bursts import INTERVAL, LogBursts

from ..checks import environment
from ..show import visible

logger = logging.getLogger("framehold")
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_INDENT = "    "
_OWN_HANDLERS = ("fastmcp", "uvicorn", "uvicorn.access", "uvicorn.error")
"""Loggers to which their packages add handlers for the terminal."""
_MAX_DEPTH, _MAX_ITEMS = 6, 100
"""Limits of a field's value in JSON: nested levels, and items of each list or object."""
_REFUSALS = ("mcp.server.request_state", "mcp.server.transport_security")
"""The SDK's loggers of refused states, and of refused hosts and origins: a line for each, and anybody can send one."""
_MAX_INT_BITS = 63
"""Longer integers are written as text, because some JSON readers refuse them."""


class Few(logging.Filter):
    """Lets the first warning of a burst of a logger's pass; `LogBursts` then says how many came after it."""

    def __init__(self, interval: float = INTERVAL) -> None:
        super().__init__()
        # Its count is logged elsewhere, where it does not pass this filter.
        self._bursts = LogBursts(logger, interval)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a line is logged."""
        return record.levelno != logging.WARNING or self._bursts.begins(record.name, record.getMessage())


_few = Few()


def log(settings: FleetSettings, **who: str) -> None:
    """Configure the log of this process, then log a warning for each unknown FRAMEHOLD_ variable.

    `who` names this process, as `node="..."` or `router="..."`; it is a field of each JSON line. Handlers that the
    server's module has put on the root logger stay, with the level that it gave to that logger; only those that write
    plain text to the terminal give way, because each line would be there twice."""
    machines, level = settings.log_format == "json", settings.log_level.upper()
    handler, root = logging.StreamHandler(), logging.getLogger()
    handler.setFormatter(Machines(who) if machines else Lines(FORMAT))
    root.handlers = [found for found in root.handlers if not _gives_way(found)]
    if root.handlers:
        handler.setLevel(level)
    root.setLevel(min(root.level, handler.level) if root.handlers else level)
    if not any(map(_writes_to_terminal, root.handlers)):
        root.addHandler(handler)
    # Python's warnings are text. With text logs they are printed as Python prints them.
    logging.captureWarnings(machines)
    for name in _OWN_HANDLERS:
        found = logging.getLogger(name)
        found.handlers = [own for own in found.handlers if isinstance(own, logging.FileHandler)]
        found.propagate = True
    for name in _REFUSALS:
        logging.getLogger(name).addFilter(_few)
    for line in environment.lines():
        logger.warning(line)


def _gives_way(handler: logging.Handler) -> bool:
    """Whether a handler writes plain text to the terminal: that of `logging.basicConfig()`, and the one that MCPServer
    adds where the root logger has none. A formatter of a class of its own is the author's choice."""
    plain = handler.formatter is None or type(handler.formatter) is logging.Formatter
    return plain and _writes_to_terminal(handler)


def _writes_to_terminal(handler: logging.Handler) -> bool:
    # Slow to import, and of use only where something has added a handler.
    from rich.logging import RichHandler

    if isinstance(handler, RichHandler):
        stream: object = handler.console.file
    else:
        stream = handler.stream if type(handler) is logging.StreamHandler else None
    return stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__) and stream is not None


def announce(settings: FleetSettings, line: str) -> None:
    """Print the `line` that says where this process serves to standard output. With JSON logs, log it instead."""
    if settings.log_format == "json":
        logger.info(line)
    else:
        print(line, flush=True)


class Lines(logging.Formatter):
    """Formats records as text lines. A line of a call that doesn't name it ends with the call, its tool and its
    round."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible.line(super().formatMessage(record) + _call_suffix(record))

    def formatException(self, ei: Any) -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _call_suffix(record: logging.LogRecord) -> str:
    known = record.__dict__
    call = known.get("call")
    if not isinstance(call, str) or call in record.message:
        return ""
    parts = [f"call {call}", *(f"{name} {known[name]}" for name in ("tool", "round") if name in known)]
    return f" [{', '.join(parts)}]"


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in visible.block(text).split("\n"))


class Machines(JsonFormatter):
    """Formats records as JSON objects: time (RFC 3339, UTC), level, logger, message, `who`, and the fields of
    `extra=`."""

    def __init__(self, who: dict[str, str]) -> None:
        super().__init__(reserved_attrs=[*RESERVED_ATTRS, "color_message"])
        self._who = who

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """Fill `log_data` with the fields of a line, in their order."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        log_data |= {
            "time": moment.replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._who,
        }
        extra: dict[str, Any] = {}
        super().add_fields(extra, record, {})
        for name, value in extra.items():
            # `extra` may name another node of this process, and then replaces `who`. It replaces no other field.
            if name not in log_data or name in self._who:
                log_data[name] = value
        for name, shown_as in (("exc_info", "exception"), ("stack_info", "stack")):
            if name in message_dict:
                log_data[shown_as] = message_dict[name]

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """One line in ASCII, which every reader can decode."""
        return json.dumps(_plain(log_data, _MAX_DEPTH), allow_nan=False)


def _plain(value: Any, depth: int) -> Any:
    """Convert any value to one that JSON has. `depth` is the number of nested levels left.

    Lone surrogates, which some JSON readers refuse, become escapes."""
    if value is None or (isinstance(value, int) and value.bit_length() <= _MAX_INT_BITS):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict) and depth:
        return {_text(name): _plain(item, depth - 1) for name, item in list(value.items())[:_MAX_ITEMS]}
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return [_plain(item, depth - 1) for item in list(value)[:_MAX_ITEMS]]
    return _text(value)


def _text(value: Any) -> str:
    try:
        text = str(value)
    except Exception:
        text = f"a {type(value).__name__} that can't be shown"
    return text.encode("utf-8", "backslashreplace").decode()
