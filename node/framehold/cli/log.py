"""What a process of a fleet logs on standard error: a line for people, or a JSON object for machines
(FRAMEHOLD_LOG_FORMAT).

The law: one line for each record, whatever is in it: who names a tool or sends a message forges no line, and breaks no
reader. A traceback follows its line indented; in JSON it is a field. All loggers of the process come through here,
the SDK's, FastMCP's and uvicorn's too.
"""

from __future__ import annotations

import json
import logging
import math
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from framehold_router.config import FleetSettings

from . import environment, visible

logger = logging.getLogger("framehold")
FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
_INDENT = "    "
_OWN_HANDLERS = ("fastmcp", "uvicorn", "uvicorn.access", "uvicorn.error")
"""Loggers that their packages give handlers of their own."""
_DEEP, _MANY = 6, 100
"""Levels of a field's value that are written out, and members of each."""
_BITS = 63
"""Of a whole number that every reader takes."""


def log(settings: FleetSettings, **who: str) -> None:
    """Log from here on, at first what is odd about the environment. `who` names this process: `node="..."` or
    `router="..."`; each JSON line says so."""
    handler, machines = logging.StreamHandler(), settings.log_format == "json"
    handler.setFormatter(Machines(who) if machines else Lines(FORMAT))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    # Python's own warnings are lines for people.
    logging.captureWarnings(machines)
    for name in _OWN_HANDLERS:
        found = logging.getLogger(name)
        found.handlers, found.propagate = [], True
    for line in environment.lines():
        logger.warning(line)


def announce(settings: FleetSettings, line: str) -> None:
    """Say where this process serves: to people on standard output, to machines with the rest."""
    if settings.log_format == "json":
        logger.info(line)
    else:
        print(line, flush=True)


class Lines(logging.Formatter):
    """Records for people."""

    def formatMessage(self, record: logging.LogRecord) -> str:
        return visible.line(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:
        return _indented(super().formatException(ei))

    def formatStack(self, stack_info: str) -> str:
        return _indented(super().formatStack(stack_info))


def _indented(text: str) -> str:
    return "\n".join(_INDENT + line for line in visible.block(text).split("\n"))


class Machines(JsonFormatter):
    """Records as JSON objects: time (RFC 3339, UTC), level, logger, message, `who`, and whatever `extra=` brought."""

    def __init__(self, who: dict[str, str]) -> None:
        super().__init__(reserved_attrs=[*RESERVED_ATTRS, "color_message"])
        self._who = who

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        """What a line says, in this order."""
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
            # What a line is about may be another node of this process; its own words nothing replaces.
            if name not in log_data or name in self._who:
                log_data[name] = value
        for name, told in (("exc_info", "exception"), ("stack_info", "stack")):
            if name in message_dict:
                log_data[told] = message_dict[name]

    def jsonify_log_record(self, log_data: dict[str, Any]) -> str:
        """One line, in ASCII: every reader reads it, however it decodes this process's output."""
        return json.dumps(_plain(log_data, _DEEP), allow_nan=False)


def _plain(value: Any, deep: int) -> Any:
    """As JSON has it, whatever it is; half a surrogate pair, which some readers refuse, as its escape."""
    if value is None or (isinstance(value, int) and value.bit_length() <= _BITS):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict) and deep:
        return {_text(name): _plain(item, deep - 1) for name, item in list(value.items())[:_MANY]}
    if isinstance(value, list | tuple | set | frozenset) and deep:
        return [_plain(item, deep - 1) for item in list(value)[:_MANY]]
    return _text(value)


def _text(value: Any) -> str:
    try:
        text = str(value)
    except Exception:
        text = f"a {type(value).__name__} that can't be shown"
    return text.encode("utf-8", "backslashreplace").decode()
