"""Plays the rest of a recorded call on the present release of its server: once as a fleet would carry it on, and once
without the code that it began with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import mcp_types as types

from framehold_core.effects import Reason, Refusal
from framehold_core.value import replace

from ..frame.difference import difference
from .client_script import RehearsalEnds, RehearsalFailed, differing
from .kept_code import KeptCode
from .recording import Recording
from .rehearsal import Act, PlayedCall, is_error, other_end
from .server_double import Reply, settings_of

Code = Literal["kept", "present", "unchanged", "none"]
_CODES: dict[Code, str] = {
    "none": "no code",
    "kept": "the code that it began with",
    "present": "the present code",
    "unchanged": "the present code, which is unchanged,",
}
_EARLIER = "in the earlier release"


@dataclass(frozen=True)
class DeployOutcome:
    """How a waiting call went on after a deploy.

    - `code`: what was entered: the "kept" code that it began with, the "present" code, the present code that is
      "unchanged", or "none"
    - `problem`: why the kept code did not carry it on; empty if it did, or was not looked for
    - `broken`: why the call breaks: it diverges, is lost, ends with an error that it did not have in the earlier
      release, or its kept code comes to something else than there; empty if it goes on
    - `changed`: the first difference to the call in the earlier release, or why the rest could not be played: a
      question has no answer, or a recorded result can't be read here; empty if there is none
    - `questions`, `effects`, `text`: as in `Rehearsal`, up to the end of the call or to where it broke

    Its `str` says all of this in one line.
    """

    code: Code
    problem: str
    broken: str
    changed: str
    questions: list[str]
    effects: list[str]
    text: str

    def __str__(self) -> str:
        problem = f", since {self.problem}" if self.problem else ""
        code = f"{_CODES[self.code]} was entered{problem}"
        if self.broken:
            return f"{self.broken}; {code}"
        return f"it goes on, but {self.changed}; {code}" if self.changed else f"it goes on as it began; {code}"


class Deploy(NamedTuple):
    """The present release is deployed while a call waits for the answers of its round `round`. No node of the earlier
    release is left.

    - `kept`: what becomes of the call on a fleet with a shared store, as the settings and the marks have it. If its
      code can't be kept or loaded, the present code carries it on
    - `not_kept`: what becomes of it if the kept code is missing
    """

    round: int
    kept: DeployOutcome
    not_kept: DeployOutcome

    def __str__(self) -> str:
        return f"round {self.round}: {self.kept}\n  without its code: {self.not_kept}"


@dataclass
class Continued(PlayedCall):
    """The rest of a recorded call. `code` keeps the code that it began with; None: that is missing."""

    code: KeptCode | None = None

    async def effect(self, key: str, call: partial[Any], run: Callable[[], Awaitable[Any]]) -> Any:
        """See `PlayedCall.effect`. The present code may run other effects than the earlier code did."""
        self.ran(key)
        try:
            if self.code is not None and self.code.entered:
                return await self.known.again(key, self.effects.count(key), call)
            return await self.known.once(key, call, run)
        except RehearsalEnds as error:
            self.failure = self.failure or error
            raise
        except RehearsalFailed as error:
            self.fails(f"the call differs under {self.way}: {error}")
            raise

    def refused(self, refusal: Refusal) -> None:
        """See `PlayedCall.refused`. A question that differs from the earlier one, but not in its text, is described."""
        earlier = enumerate((asked.params for asked in self.asked), 1)
        found = (
            difference(params, self.asking, f"question {place}")
            for place, params in earlier
            if "message" in params and params["message"] == self.asking.get("message")
        )
        if refusal.reason is Reason.DIVERGED and (other := next(filter(None, found), None)) is not None:
            refusal = replace(refusal, detail=f"{differing(*other, _EARLIER)}; {refusal.detail}")
        super().refused(refusal)


class DeployedRelease(NamedTuple):
    """The release that is deployed: the rest of the call on its server, whether it has the code of the recording, and
    why it would not enter its own code for the call (empty if it would)."""

    act: Act
    unchanged: bool
    obstacle: str


async def deployed(
    recording: Recording, present: DeployedRelease, reset: Callable[[], Awaitable[None]]
) -> tuple[Deploy, ...]:
    """What becomes of the recorded call if the present release is deployed while it waits, for each round. `reset` is
    awaited before each play."""
    settings, rounds = settings_of(present.act.original.server), range(1, len(recording.run.parks) + 1)
    kept = []
    for round_ in rounds:
        await reset()
        code = KeptCode(settings, recording.code, recording.problem)
        kept.append(await _outcome(recording, present, round_, code))
    found = []
    for round_, outcome in zip(rounds, kept, strict=True):
        other = outcome
        if outcome.code == "kept":
            await reset()
            other = await _outcome(recording, present, round_, None)
        found.append(Deploy(round_, outcome, other))
    return tuple(found)


def verdict(name: str, deploys: Sequence[Deploy]) -> str:
    """A text about the deploys that break the call; empty if none does."""
    broken = [f"\n  in round {item.round}: {item.kept}" for item in deploys if item.kept.broken]
    if not broken:
        return ""
    return (
        f"calls of {name!r} that began in the earlier release break if this one is deployed while they wait:"
        f"{''.join(broken)}\n{_ADVICE}"
    )


_ADVICE = (
    "for as long as they wait: keep the names that the earlier code uses, have it kept, or let the present code do the "
    "same"
)


async def _outcome(recording: Recording, present: DeployedRelease, round_: int, code: KeptCode | None) -> DeployOutcome:
    act, earlier, park = present.act, recording.run, recording.run.parks[round_ - 1]
    run = Continued(
        *("the present release", act.entropy(), recording.known, act.allow_misuse, earlier.asked[: park.asked]),
        *(earlier.effects[: park.effects], earlier.parks[:round_]),
        code=code,
    )
    await act.go_on(run, recording.script.further, code)
    if run.failure is not None and not isinstance(run.failure, RehearsalFailed):
        raise run.failure
    entered = code is not None and code.entered
    broken = _broken(earlier, run) if entered or not present.obstacle else present.obstacle
    changed = "" if broken else _changed(recording, run)
    if entered and changed and run.failure is None:
        broken = f"the code that it began with comes to something else here: {changed}"
    other: Code = "none" if present.obstacle else "unchanged" if present.unchanged else "present"
    return DeployOutcome(
        "kept" if entered else other,
        "" if entered or present.unchanged or code is None else code.problem,
        *(broken, changed, [asked.message for asked in run.asked], list(run.effects), _text(run.reply)),
    )


def _broken(earlier: PlayedCall, run: PlayedCall) -> str:
    if run.failure is not None:
        return "" if isinstance(run.failure, RehearsalEnds) else str(run.failure)
    if is_error(run.reply) and not is_error(earlier.reply):
        raised = f"; {why}" if (why := run.ended()) else ""
        return f"it ends with an error after {run.last()}: {_text(run.reply)}{raised}"
    return ""


def _changed(recording: Recording, run: PlayedCall) -> str:
    if run.failure is not None:
        return str(run.failure)
    if found := recording.script.other(run.asked, since=_EARLIER):
        return found
    if (missing := recording.script.unasked(run.asked)) is not None:
        return f"it does not ask {missing}"
    return other_end(recording.run, run, _EARLIER) or ""


def _text(reply: Reply) -> str:
    """The texts of a reply, joined by line breaks; the message of an error."""
    if isinstance(reply, types.ErrorData):
        return reply.message
    messages = [message.get("content") for message in reply.get("messages", ())]
    blocks = reply.get("content") or messages or reply.get("contents") or ()
    return "\n".join(block["text"] for block in blocks if isinstance(block, dict) and "text" in block)
