"""The chunks of a body: where they end in what was received. Only sizes are read here: a parser must check the rest."""

from __future__ import annotations

import re

_SIZE_LINE = re.compile(rb"([0-9a-fA-F]*)[^\n]*\n")
_LINE_END = 2


class Chunks:
    """The chunks of one body. `more` is false behind the line of the last chunk, where trailers begin."""

    __slots__ = ("_due", "_line", "more")

    def __init__(self) -> None:
        self.more = True
        self._due = 0  # bytes of the present chunk and of its line end that are still missing
        self._line = b""  # what has come of the line with the next chunk's size

    def end(self, data: bytes, start: int) -> int:
        """Where the chunks end in `data`, of which the bytes from `start` on are new: behind the line of the last
        chunk, or at the end of the data, if there is `more`. A line without a size counts as that of the last chunk."""
        at, size = start + self._due, len(data)
        if self._line:
            line_end = data.find(b"\n", start) + 1 or size
            line = self._line + data[start:line_end]
            at = self._past(line, 0) + line_end - len(line)
        while self.more and at < size:
            at = self._past(data, at)
        self._due = at - size if self.more else 0
        return min(at, size)

    def _past(self, data: bytes, at: int) -> int:
        """Where the chunk ends whose line begins at `at`."""
        line = _SIZE_LINE.match(data, at)
        if line is None:
            self._line = data[at:]
            return len(data)
        self._line = b""
        length = int(line[1] or b"0", 16)
        self.more = length > 0
        return line.end() + length + _LINE_END if length else line.end()
