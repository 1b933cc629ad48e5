"""Parses the raw answers of a request: each with the parser of its question, and all of them before any is taken
(docs/protocol.md, rule 10)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from framehold_core import events as ev
from framehold_core import journal

from .slot import Slot


class MalformedAnswer(ValueError):
    """An answer is not of the kind that its question asks for; no answer was taken."""


def given(answers: Mapping[str, Any], limit: int, named: Callable[[bytes], str]) -> tuple[ev.Answer, ...]:
    """Raw answers (JSON values by key) as core's events have them: key, digest and JSON bytes. `limit` is how many
    bytes one may have, `named` makes the digests.

    Raises:
        MalformedAnswer: an answer can't be written as JSON, or is too large.
    """
    try:
        written = [(key, raw, journal.canonical(raw)) for key, raw in answers.items()]
        found = tuple([ev.Answer(key, journal.answer_digest(raw, named, data), data) for key, raw, data in written])
    except (RecursionError, ValueError) as error:
        raise MalformedAnswer(f"an answer can't be read ({type(error).__name__}); no answer was taken") from None
    for answer in found:
        if (size := len(answer.value)) > limit:
            raise MalformedAnswer(
                f"the answer to {answer.key!r} has {size} bytes, and {limit} are taken at most (FRAMEHOLD_MAX_VALUE); "
                "no answer was taken; send a shorter one"
            )
    return found


def fits(size: int, journal_size: int, limit: int) -> None:
    """Raise MalformedAnswer if a journal of `journal_size` bytes has no room for answers of `size`."""
    if journal_size + size > limit:
        raise MalformedAnswer(
            f"the answers have {size} bytes, which is too much for the journal of this call, which has {journal_size} "
            "(FRAMEHOLD_MAX_JOURNAL); no answer was taken; send shorter ones"
        )


def parsed(slot: Slot, round_: int, answers: Mapping[str, Any]) -> dict[str, Any]:
    """The parsed answers to pending questions, by key; empty if `round_`, the round of the token, is not the parked
    one.

    Raises:
        MalformedAnswer: an answer is not of the kind that its question asks for.
    """
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
