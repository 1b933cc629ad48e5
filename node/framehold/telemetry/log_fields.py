"""Puts the fields of the running call on every log line, whichever logger writes it.

The law: a filter on the handlers, no record factory and no filter on a logger. Each logger of the process hands its
lines to handlers, while a logger's filter sees the lines of that logger alone. A factory would make the fields part of
each record before `extra=` is added, and `logging` raises where an author's `extra=` has a field of the same name.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ..frame.logged_call import log_fields


class CallFields(logging.Filter):
    """Adds `call`, `tool`, `round`, `epoch`, `node`, `trace_id` and `span_id` to each record that is written within a
    call. What the record has already stays, and a record that names another call gets nothing."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the fields; no record is left out."""
        fields, known = log_fields(), record.__dict__
        if fields and known.get("call", fields.get("call")) == fields.get("call"):
            known.update({name: value for name, value in fields.items() if name not in known})
        return True


_FIELDS = CallFields()


def add_call_fields() -> None:
    """Add the filter to all handlers that loggers of this process have now. Idempotent: call it again after code has
    run that may have added handlers."""
    for handler in _handlers():
        handler.addFilter(_FIELDS)


def _handlers() -> Iterator[logging.Handler]:
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    for logger in loggers:
        if isinstance(logger, logging.Logger):
            yield from logger.handlers
