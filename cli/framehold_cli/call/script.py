"""`framehold call --json`: takes answers from a program, and prints one JSON document about the call.

An answer is a JSON object, which is the content of a form and accepts it, or one of the words `accept`, `decline` and
`cancel`. Answers come from `--answer` first, then from standard input, one on each line. Each question takes the next
one; questions that come in one round take theirs in the order in which the server sent them.

The document (docs/cli.md) is printed once, at the end, also where the call gives no result.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from mcp.types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitRequestURLParams,
    ElicitResult,
)

from framehold.sdk import form_content
from framehold_core import ids
from framehold_core.errors import ConfigError

from .cause import Cause, call_of
from .samples import in_utf_8, of_json
from .target import CallTarget, Result
from .terminal import ScriptEnded

_NODE = "framehold-node"
_ACTIONS = ("accept", "decline", "cancel")


class AnswerScript:
    """The caller of `framehold call --json`: a program. It has the methods of a `Terminal`."""

    def __init__(self, target: CallTarget, answers: Sequence[str]) -> None:
        """Raises ConfigError: one of the `answers` can't be read."""
        self._target = target
        try:
            self._given = [_parsed(text) for text in answers]
        except ValueError as error:
            raise ConfigError(f"{error}; nothing was called") from None
        self._asked: list[dict[str, Any]] = []
        self._outcome, self._why = "no_result", ""
        self._result: dict[str, Any] | None = None
        self.node = ""
        """The node that answered last; empty if it did not say so."""

    @property
    def asked(self) -> bool:
        """Whether a question was asked."""
        return bool(self._asked)

    async def note_node(self, response: Any) -> None:
        """Remember which node answered. A hook of the HTTP client."""
        self.node = response.headers.get(_NODE) or self.node

    async def answer(self, context: Any, params: ElicitRequestParams) -> ElicitResult:
        """Answer a question with the next answer.

        Raises:
            Unanswered: there is none left, the next line of standard input is no answer, or the answer does not match
                the form.
        """
        question = params.model_dump(mode="json", by_alias=True, exclude_none=True, include=_SHOWN)
        self._asked.append({**question, "answer": None})
        answer = self._given.pop(0) if self._given else self._read()
        if isinstance(params, ElicitRequestURLParams):
            answer = ElicitResult(action=answer.action)
        elif answer.action == "accept":
            answer = _matching(answer.content or {}, params)
        self._asked[-1]["answer"] = answer.model_dump(mode="json", exclude_none=True, include={"action", "content"})
        return answer

    def _read(self) -> ElicitResult:
        line = "" if sys.stdin.isatty() else sys.stdin.readline()
        if not line:
            raise ScriptEnded("there is no answer left; give one --answer, or one line of input, for each question")
        try:
            return _parsed(line)
        except ValueError as error:
            raise ScriptEnded(f"{error}; it was not sent") from None

    def show(self, result: Result) -> int:
        """Keep a result for the document; return the exit code: 1 if the tool reports an error, else 0."""
        is_error = isinstance(result, CallToolResult) and bool(result.is_error)
        self._outcome = "tool_error" if is_error else "completed"
        self._result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        return 1 if is_error else 0

    def refuse(self, outcome: str, why: str) -> None:
        """Keep why there is no result: `outcome` is protocol_error, no_result, unanswered or interrupted."""
        self._outcome, self._why = outcome, why

    def notice(self, what: str) -> None:
        """Print a notice on standard error. It is no failure."""
        print(f"framehold: {what}", file=sys.stderr, flush=True)

    def end(self, url: str, rounds: int, state: str, cause: Cause | None) -> None:
        """Print the document. `rounds`: how many requests called the target. `state`: the last `requestState`, empty if
        the server has sent none. `cause`: why the call failed, if it did."""
        call = call_of(state) or (cause.call if cause else "")
        failure = {"error": cause.error, "place": cause.place} if cause and cause.error else None
        document = {
            "url": url,
            self._target.kind.value: self._target.name,
            "outcome": self._outcome,
            "result": self._result,
            "error": self._why or None,
            "failure": failure,
            "reason": (cause.reason if cause else "") or None,
            "asked": self._asked,
            "rounds": rounds,
            "node": self.node or None,
            "call": ids.prefix(call) if call else None,
        }
        print(json.dumps(document, indent=2), flush=True)


def _matching(content: dict[str, Any], question: ElicitRequestFormParams) -> ElicitResult:
    if why := form_content.mismatch(content, question.requested_schema):
        raise ScriptEnded(
            f"the answer {json.dumps(content)} does not match the form of {question.message!r}: {why}; it was not sent"
        )
    return ElicitResult(action="accept", content=content)


_SHOWN = {"mode", "message", "requested_schema", "url"}
"""The fields of a question that the document has."""


def _parsed(text: str) -> ElicitResult:
    word = text.strip().strip('"')
    if word in _ACTIONS:
        return ElicitResult(action=word)
    try:
        content = of_json(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise ValueError(
            f"the answer {text.strip()!r} is neither a JSON object with the form's fields nor accept, decline or cancel"
        )
    return ElicitResult(action="accept", content=in_utf_8(content))
