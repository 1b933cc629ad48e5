"""What a test hears of a call that was rehearsed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mcp_types as types
from mcp_types.methods import parse_server_result
from mcp_types.version import LATEST_MODERN_VERSION

from .rehearsal import Run, Way
from .script import Asked


@dataclass(frozen=True)
class Told:
    """What a call came to, the same in all `ways` that it was played.

    Either `result` or `error` is there. `asked` are its questions in order, `effects` the keys of the effects of `once`
    that really ran, in the order in which they began while the call was held. `raised` is what the handler raised then
    where the client only hears that it failed, as in "Error executing tool x": as the SDK logs it, else None.
    """

    result: types.CallToolResult | types.GetPromptResult | types.ReadResourceResult | None
    error: types.ErrorData | None
    asked: tuple[Asked, ...]
    effects: list[str]
    ways: tuple[Way, ...]
    raised: BaseException | None = None

    @property
    def text(self) -> str:
        """The texts of the result, one below the other; of an error its message."""
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
        """What the user read, question by question."""
        return [item.message for item in self.asked]

    @property
    def rounds(self) -> list[list[str]]:
        """The same, round by round. A round of a handler that parks by hand may ask nothing."""
        last = max((item.round for item in self.asked), default=0)
        return [[item.message for item in self.asked if item.round == n] for n in range(1, last + 1)]


def told_of(run: Run, method: str, ways: tuple[Way, ...]) -> Told:
    """What the call came to in this run."""
    result: Any = None
    error: types.ErrorData | None = None
    if isinstance(run.reply, types.ErrorData):
        error = run.reply
    else:
        result = parse_server_result(method, LATEST_MODERN_VERSION, run.reply)
    failed = error is not None or getattr(result, "is_error", False)
    return Told(result, error, tuple(run.asked), list(run.effects), ways, run.raised if failed else None)
