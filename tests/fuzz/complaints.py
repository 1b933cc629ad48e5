"""What a process logs while it is fuzzed: an exception that somebody meant to happen is told in words, not shown."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


class Complaints(logging.Handler):
    """Keeps each line that shows an exception, but for those that have one of the words `ignored` in them."""

    def __init__(self, ignored: tuple[str, ...]) -> None:
        super().__init__(logging.INFO)
        self._ignored = ignored
        self.said: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or "Traceback" in record.getMessage():
            text = f"{record.name}: {self.format(record)[-3000:]}"
            self.said += [] if any(word in text for word in self._ignored) else [text]


@contextmanager
def complaints(*ignored: str) -> Iterator[Complaints]:
    """All that is logged goes there, and nowhere else: printing it would take most of the time."""
    root, made = logging.getLogger(), Complaints(ignored)
    handlers, disabled = root.handlers, root.manager.disable
    root.handlers = [made]
    logging.disable(logging.NOTSET)
    try:
        yield made
    finally:
        root.handlers = handlers
        logging.disable(disabled)
