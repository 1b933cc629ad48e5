"""The line by which a node tells the terminal of `framehold up` of one round: JSON behind a mark.

Apart from what writes it (`rounds`), because `framehold up` reads it and imports nothing that takes long.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

MARK = "\x1eframehold-round "
"""How a line begins that tells of a round: with a character that no text has which people write."""


@dataclass(frozen=True)
class RoundLine:
    """What happened in one round.

    `tool` names the tool or the prompt, or is the URI of the resource. `before` says how the round came to the handler:
    resumed, replayed or taken over, or the client's revision if that has no rounds; empty in round 1. `asked` is the
    text of its first question, `more` how many others it asked. `how` is how the round ended: parked, returned,
    finished, failed, refused or left. `error` and `place` are those of `framehold_core.ending.Ending`, or the reason of
    a refusal. `seconds` is the time from the request to its reply."""

    tool: str
    node: str
    call: str
    how: str
    seconds: float
    before: str = ""
    asked: str = ""
    more: int = 0
    error: str = ""
    place: str = ""

    def dump(self) -> str:
        """The line that tells of it."""
        return MARK + json.dumps(asdict(self))


def load(line: str) -> RoundLine | None:
    """Read a line that begins with `MARK`; None if it is none of this release."""
    try:
        return RoundLine(**json.loads(line.removeprefix(MARK)))
    except (ValueError, TypeError):
        return None
