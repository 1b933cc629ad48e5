"""The terminal of `framehold call`: it shows a question, reads the value of each field, and prints the result.

Reading a line blocks the event loop. Between two rounds the loop has nothing else to do, and questions of one round are
asked one after the other.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import io
import json
import signal
import sys
from typing import Any

from mcp.types import (
    BlobResourceContents,
    CallToolResult,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
    GetPromptResult,
    ReadResourceResult,
    TextContent,
    TextResourceContents,
)
from rich.text import Text

from ..show import visible
from ..show.voice import drawn
from .cause import Cause
from .form import FieldDeclined, fill
from .target import Result

_NODE, _ROUTE = "framehold-node", "framehold-route"


class Interrupted(Exception):
    """The user pressed Ctrl-C while a question was open."""


class ScriptEnded(Exception):
    """A question was asked, and the input of the script was at its end. The message says what to do."""


class Terminal:
    """Standard input and output, used by a person or by a script."""

    def __init__(self) -> None:
        self._person = sys.stdin.isatty()
        self._colour = sys.stdout.isatty()
        self._served = ""
        self.node = ""
        """The node that answered last; empty if it did not say so."""
        self.asked = False
        """Whether a question was asked."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                # A character that this terminal can't show must not end the call.
                stream.reconfigure(errors="backslashreplace")
        if self._person:
            # With readline, if Python has it, arrow keys and a history work.
            with contextlib.suppress(ImportError):
                importlib.import_module("readline")

    async def note_node(self, response: Any) -> None:
        """Remember from a response's headers which node answered. A hook of the HTTP client."""
        if node := response.headers.get(_NODE):
            route = response.headers.get(_ROUTE)
            self.node, self._served = node, visible.line(f"{node}, {route}" if route else node)

    async def answer(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Ask a question. A person cancels it with Ctrl-D.

        Raises:
            Interrupted: the user pressed Ctrl-C.
            Unanswered: the input comes from a script and is at its end.
        """
        self.asked = True
        where = f"[{self._served}] " if self._served else ""
        # Further lines are indented, so that none looks like a question of its own.
        message = visible.block(params.message).replace("\n", "\n    ")
        print(f"\n{self._styled(where, 'dim')}{self._styled(message, 'bold')}", flush=True)
        try:
            if isinstance(params, ElicitRequestURLParams):
                return self._visit(params)
            content = fill(params.requested_schema, self._ask, lambda line: self._print(visible.line(line)))
        except FieldDeclined:
            self._print("  declined")
            return ElicitResult(action="decline")
        except EOFError:
            self._print("\n  cancelled" if self._person else "")
            if not self._person:
                # A tool may ask again after each cancel, so the call ends here. This error closes the client cleanly.
                raise ScriptEnded("there is no more input to answer with; give one line for each field") from None
            return ElicitResult(action="cancel")
        return ElicitResult(action="accept", content=content)

    def _visit(self, question: ElicitRequestURLParams) -> ElicitResult:
        """Ask a question that is answered in a browser. The address is shown first, and is not opened."""
        self._print(f"  It wants you to go to: {visible.line(question.url)}")
        typed = self._ask("  Press Enter when you have been there, or type n to decline. ")
        return ElicitResult(action="decline" if typed.strip().casefold() in ("n", "no") else "accept")

    def show(self, result: Result) -> int:
        """Print a result; return the exit code: 1 if the tool reports an error, else 0."""
        is_error = isinstance(result, CallToolResult) and bool(result.is_error)
        out, texts = sys.stderr if is_error else sys.stdout, _texts(result)
        where = f"[{self._served}] " if self._served else ""
        print(f"\n{self._styled(where, 'dim')}" + visible.block("\n".join(texts)), file=out)
        return 1 if is_error else 0

    def refuse(self, outcome: str, why: str) -> None:
        """Print why there is no result, as one line on standard error."""
        print(f"\nframehold: {visible.line(' '.join(why.split()))}", file=sys.stderr)

    def notice(self, what: str) -> None:
        """Print a notice on standard error. It is no failure."""
        print(f"framehold: {what}", file=sys.stderr, flush=True)

    def end(self, url: str, rounds: int, state: str, cause: Cause | None) -> None:
        """Print where the cause of a failed call stands, if it is known."""
        for number, line in enumerate(cause.lines if cause else ()):
            print("" if number else "framehold: ", visible.line(line), sep="", file=sys.stderr)

    def _ask(self, prompt: str) -> str:
        # asyncio's own handler would handle a Ctrl-C only after the line is finished.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            line = input(visible.line(prompt))
        except KeyboardInterrupt:
            # An ordinary error closes the client cleanly; KeyboardInterrupt would skip its tasks.
            raise Interrupted from None
        finally:
            signal.signal(signal.SIGINT, before)
        if not self._person:
            print(line, flush=True)
        return line

    def _print(self, line: str) -> None:
        print(line, flush=True)

    def _styled(self, text: str, style: str) -> str:
        return drawn(Text(text, style=style)) + " " * (len(text) - len(text.rstrip())) if self._colour else text


def _texts(result: Result) -> list[str]:
    """The contents of a result as texts. Each message of a prompt begins with its role."""
    if isinstance(result, GetPromptResult):
        return [f"{message.role}: {_block_text(message.content)}" for message in result.messages]
    if isinstance(result, ReadResourceResult):
        return [_resource_text(item) for item in result.contents]
    texts = [_block_text(block) for block in result.content]
    if not texts and result.structured_content is not None:
        texts = [json.dumps(result.structured_content, ensure_ascii=False, indent=2)]
    return texts


def _resource_text(item: TextResourceContents | BlobResourceContents) -> str:
    if isinstance(item, TextResourceContents):
        return item.text
    kind = f": {item.mime_type}" if item.mime_type else ""
    return f"({len(base64.b64decode(item.blob))} bytes{kind}; --json has them as base64)"


def _block_text(block: Any) -> str:
    if isinstance(block, TextContent):
        return block.text
    kind = getattr(block, "mime_type", None) or getattr(block, "uri", "")
    return f"({block.type}{f': {kind}' if kind else ''})"
