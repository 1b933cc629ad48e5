"""Whoever sits at the terminal: shown a question, asked for each of its fields, told the result.

The loop stands still while someone types: between two rounds there is nothing else for it to do, and questions that
come together are put one after the other.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import signal
import sys
from typing import Any

from mcp.types import CallToolResult, ElicitRequestParams, ElicitRequestURLParams, ElicitResult, TextContent
from rich.text import Text

from . import visible
from .form import Declined, fill
from .voice import drawn

_NODE, _ROUTE = "framehold-node", "framehold-route"


class Interrupted(Exception):
    """Ctrl-C, while something was asked."""


class Unanswered(Exception):
    """Something was asked, and the input of a script was at its end."""


class Terminal:
    """Standard input and output, a person or a script behind them."""

    def __init__(self) -> None:
        self._person = sys.stdin.isatty()
        self._colour = sys.stdout.isatty()
        self._node = ""
        self.asked = False
        """Whether a question was put."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A character that this terminal has not is no reason to lose a call.
                stream.reconfigure(errors="backslashreplace")
        if self._person:
            # Arrow keys and a history, where Python was built with them.
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")

    async def answered(self, response: Any) -> None:
        """Look at a response's headers: which node it was."""
        if node := response.headers.get(_NODE):
            route = response.headers.get(_ROUTE)
            self._node = visible.line(f"{node}, {route}" if route else node)

    async def answer(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Put a question. A person's Ctrl-D cancels it.

        Raises:
            Interrupted: a person's Ctrl-C.
            Unanswered: a script answers, and its input was at its end.
        """
        self.asked = True
        where = f"[{self._node}] " if self._node else ""
        # Further lines are moved to the right: none of them can pass for a question of its own.
        message = visible.block(params.message).replace("\n", "\n    ")
        print(f"\n{self._styled(where, 'dim')}{self._styled(message, 'bold')}", flush=True)
        try:
            if isinstance(params, ElicitRequestURLParams):
                return self._visit(params)
            content = fill(params.requested_schema, self._ask, lambda line: self._tell(visible.line(line)))
        except Declined:
            self._tell("  declined")
            return ElicitResult(action="decline")
        except EOFError:
            self._tell("\n  cancelled" if self._person else "")
            if not self._person:
                # A tool may ask until it is answered. This one error closes the client in good order.
                raise Unanswered from None
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content=content)

    def _visit(self, question: ElicitRequestURLParams) -> ElicitResult:
        """A question that is answered elsewhere: in a browser, at an address that the person should look at first."""
        self._tell(f"  It wants you to go to: {visible.line(question.url)}")
        said = self._ask("  Press Enter when you have been there, or type n to decline. ")
        return ElicitResult(action="decline" if said.strip().casefold() in ("n", "no") else "accept")

    def show(self, result: CallToolResult) -> int:
        """Print a result; the exit code that it deserves."""
        out = sys.stderr if result.is_error else sys.stdout
        texts = [_said(block) for block in result.content]
        if not texts and result.structured_content is not None:
            texts = [json.dumps(result.structured_content, ensure_ascii=False, indent=2)]
        where = f"[{self._node}] " if self._node else ""
        print(f"\n{self._styled(where, 'dim')}" + visible.block("\n".join(texts)), file=out)
        return 1 if result.is_error else 0

    def complain(self, why: str) -> None:
        """One line on the other stream."""
        print(f"\nframehold: {visible.line(' '.join(why.split()))}", file=sys.stderr)

    def notice(self, what: str) -> None:
        """The same for what is no failure yet."""
        print(f"framehold: {what}", file=sys.stderr, flush=True)

    def _ask(self, prompt: str) -> str:
        # asyncio's own handler would only note a Ctrl-C until the line is finished.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            line = input(visible.line(prompt))
        except KeyboardInterrupt:
            # An ordinary error closes the client in good order; this one would fall through its tasks.
            raise Interrupted from None
        finally:
            signal.signal(signal.SIGINT, before)
        if not self._person:
            print(line, flush=True)
        return line

    def _tell(self, line: str) -> None:
        print(line, flush=True)

    def _styled(self, text: str, style: str) -> str:
        return drawn(Text(text, style=style)) + " " * (len(text) - len(text.rstrip())) if self._colour else text


def _said(block: Any) -> str:
    if isinstance(block, TextContent):
        return block.text
    kind = getattr(block, "mime_type", None) or getattr(block, "uri", "")
    return f"({block.type}{f': {kind}' if kind else ''})"
