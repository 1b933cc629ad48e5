"""The lines of `framehold up` about rounds, as `book  asked 'Which room?'  parked  3 ms  node-2  1f3a77c0`.

The law: each round is one line. Names, questions and places come from the author's code and its users: control
characters in them are escaped.
"""

from __future__ import annotations

from rich.text import Text

from ..serve import round_line
from ..serve.round_line import RoundLine
from ..show import visible
from ..show.voice import Voice, drawn

_STYLES = {"parked": "yellow", "returned": "yellow", "finished": "green", "failed": "bold red", "refused": "red"}
_MAX_TOOL_WIDTH = 24
_REFUSED = {
    "lost": "the call is lost: its node died, and the handler is not marked @framehold.reentrant",
    "diverged": "the handler went another way than recorded: the log says which",
    "paused": "the tool is paused: framehold resume",
}
"""What a refusal means for an author, by its reason, where the reason alone does not say it."""


class RoundVoice(Voice):
    """A `Voice` that prints what a node tells of a round as a line of its own, without the prefix of the process."""

    _tool_width = 0

    def child(self, name: str, line: str) -> None:
        """Print a line of a process. What stood before a round's line, because the author's code printed no line end,
        is printed first."""
        before, mark, encoded = line.partition(round_line.MARK)
        found = round_line.load(encoded) if mark else None
        if found is None:
            super().child(name, line)
            return
        if before:
            super().child(name, before)
        self.say(self._line(found))

    def _line(self, found: RoundLine) -> str:
        tool = visible.line(found.tool)
        self._tool_width = max(self._tool_width, min(len(tool), _MAX_TOOL_WIDTH))
        parts = [(f"{tool:{self._tool_width}}", "bold")]
        if what := _what(found):
            parts.append((visible.line(what), ""))
        parts.append((visible.line(_how(found)), _STYLES.get(found.how, "")))
        parts += [(text, "dim") for text in (_took(found.seconds), found.node, found.call) if text]
        if not self.colour:
            return "  ".join(text for text, _ in parts)
        return drawn(Text("  ").join(Text(text, style=style) for text, style in parts))


def _took(seconds: float) -> str:
    """A duration in few characters: `<1 ms`, `3 ms`, `1.2 s`."""
    if seconds < 0.001:
        return "<1 ms"
    return f"{seconds * 1000:.0f} ms" if seconds < 0.9995 else f"{seconds:.1f} s"


def _what(found: RoundLine) -> str:
    """How the round came to the handler, and what it asked."""
    asked = f"asked {found.asked!r}" if found.asked else ""
    if found.more:
        asked += f" and {found.more} more"
    return ", ".join(filter(None, (found.before, asked)))


def _how(found: RoundLine) -> str:
    """How the round ended."""
    if found.how == "refused":
        return f"refused: {_REFUSED.get(found.error, found.error.replace('_', ' '))}"
    if found.how == "left":
        return "its client left"
    if found.how == "failed" and found.error:
        return f"failed: {found.error}" + (f" at {found.place}" if found.place else "")
    return found.how
