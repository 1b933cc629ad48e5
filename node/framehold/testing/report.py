"""The result of a rehearsal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_MODERN_VERSION

from .client_script import AskedQuestion
from .deploys import Deploy
from .rehearsal import PlayedCall, Way, is_error


@dataclass(frozen=True)
class Rehearsal:
    """The result of a rehearsed call, which is the same in all `ways` in which it was played.

    - `result`, `error`: the reply to the call's last request; one of them is None
    - `asked`: its questions, in order
    - `effects`: the keys of the effects of `once` that ran, in the order in which they began while the call was held
    - `ways`: the ways in which the call was played
    - `raised`: the exception with which the handler ended while the call was held; None if it returned. A recording
      does not have it
    - `deploys`: with `against`, what becomes of the call if the server is deployed while it waits, for each round
    """

    result: types.CallToolResult | types.GetPromptResult | types.ReadResourceResult | None
    error: types.ErrorData | None
    asked: tuple[AskedQuestion, ...]
    effects: list[str]
    ways: tuple[Way, ...]
    raised: BaseException | None = None
    deploys: tuple[Deploy, ...] = ()

    @property
    def text(self) -> str:
        """The texts of the result, joined by line breaks; the message if there is an error."""
        found: Sequence[Any]
        if isinstance(self.result, types.CallToolResult):
            found = self.result.content
        elif isinstance(self.result, types.GetPromptResult):
            found = [message.content for message in self.result.messages]
        elif self.result is not None:
            found = self.result.contents
        else:
            return "" if self.error is None else self.error.message
        return "\n".join(block.text for block in found if hasattr(block, "text"))

    @property
    def questions(self) -> list[str]:
        """The message of each question, in order."""
        return [item.message for item in self.asked]

    @property
    def rounds(self) -> list[list[str]]:
        """The messages of the questions of each round. A round of a handler that parks by hand may ask nothing."""
        last = max((item.round for item in self.asked), default=0)
        return [[item.message for item in self.asked if item.round == n] for n in range(1, last + 1)]


def rehearsal_of(run: PlayedCall, method: str, ways: tuple[Way, ...]) -> Rehearsal:
    """The result of a call, from its run. `method` is the method of its requests."""
    result: Any = None
    error: types.ErrorData | None = None
    if isinstance(run.reply, types.ErrorData):
        error = run.reply
    else:
        result = parse_server_result(method, LATEST_MODERN_VERSION, run.reply)
    raised = run.raised if is_error(run.reply) else None
    return Rehearsal(result, error, tuple(run.asked), list(run.effects), ways, raised)
