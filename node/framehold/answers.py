"""A request's raw answers, read for the machine: each by its own ask, all of them before any is taken (PROTOCOL rule
10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from framehold_core import events as ev
from framehold_core import journal

from .slots import Slot


class MalformedAnswer(ValueError):
    """An answer is not of the kind that was asked for; nothing was consumed."""


def given(answers: Mapping[str, Any]) -> tuple[ev.Answer, ...]:
    """Raw answers with their digests."""
    try:
        data = {key: journal.canonical(raw) for key, raw in answers.items()}
    except (RecursionError, ValueError) as error:
        raise MalformedAnswer(f"an answer can't be read ({type(error).__name__}); no answer was taken") from None
    return tuple(ev.Answer(key, journal.digest(text), text) for key, text in data.items())


def parsed(slot: Slot, round_: int, answers: Mapping[str, Any]) -> dict[str, Any]:
    """Each answer to a pending question of the token's round as its own ask parses it, before any is delivered."""
    found: dict[str, Any] = {}
    if slot.frame is None or round_ != slot.call.round or slot.call.answered is not None:
        return found
    for asked in slot.call.asks:
        ask = slot.frame.pending.get(asked.key)
        if ask is None or ask.question.fp != asked.fp or asked.key not in answers:
            continue
        try:
            found[asked.key] = ask.question.parse(answers[asked.key])
        except ValueError as error:
            raise MalformedAnswer(
                f"the answer to {asked.key!r} is malformed: {error}; no answer was taken; send it again"
            ) from None
    return found
