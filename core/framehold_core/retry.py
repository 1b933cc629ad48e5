"""Where a retry is decided.

A retry names a round r and an epoch; the call stands at round R. `ROWS` is the table of PROTOCOL section 4, asked
from the top; the first row that holds decides. The same table serves a live frame and a record read from the store:
both give a `Standing`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple

from . import journal
from .events import Answer, Retry
from .requests import Answered


class Decision(Enum):
    """What becomes of a retry."""

    NEWER = "the token was minted under a later owner"
    AHEAD = "the token is ahead of what is known"
    CONFLICT = "other answers stand recorded for this round"
    OUTCOME = "give the outcome again"
    LOST = "say that the call is lost"
    ASK_AGAIN = "ask the current questions again, under a fresh token"
    DELIVER = "deliver"
    JOIN = "wait with the others for the round's reply"
    ALREADY = "say that the round was already answered"


class Standing(NamedTuple):
    """How far a call has come. `mark` names the history at which round `round` was parked; `asks` are that round's
    keys; `answered` holds what is recorded of it and of earlier rounds."""

    epoch: int
    round: int
    mark: str
    asks: tuple[str, ...]
    answered: tuple[Answered, ...]
    done: bool = False
    lost: bool = False


class Case(NamedTuple):
    """One retry against one standing, with what the rows ask about it."""

    retry: Retry
    standing: Standing
    recorded: Answered | None
    usable: tuple[Answer, ...]
    digest: str


class Row(NamedTuple):
    """One line of the table."""

    when: str
    holds: Callable[[Case], bool]
    then: Decision


def usable(answers: Iterable[Answer], keys: Iterable[str]) -> tuple[Answer, ...]:
    """The answers to keys that were asked, in the order of the asking. Extras are ignored."""
    by_key = {answer.key: answer for answer in answers}
    return tuple(by_key[key] for key in keys if key in by_key)


def digest(answers: Iterable[Answer]) -> str:
    """One digest for a round's answers, whatever their order."""
    # A key's length stands before it, so that no key can pass for two.
    parts = sorted(f"{len(answer.key)}:{answer.key}={answer.digest}" for answer in answers)
    return journal.digest("".join(parts).encode("utf-8", "surrogatepass"))


ROWS: tuple[Row, ...] = (
    Row("token epoch > epoch", lambda c: c.retry.epoch > c.standing.epoch, Decision.NEWER),
    Row("r > R", lambda c: c.retry.round > c.standing.round, Decision.AHEAD),
    Row("recorded, other", lambda c: c.recorded is not None and c.recorded.digest != c.digest, Decision.CONFLICT),
    Row("done", lambda c: c.standing.done, Decision.OUTCOME),
    Row("lost", lambda c: c.standing.lost, Decision.LOST),
    Row("r = R, recorded", lambda c: c.retry.round == c.standing.round and c.recorded is not None, Decision.JOIN),
    Row(
        "r = R, of another history",
        lambda c: c.retry.round == c.standing.round and c.retry.mark != c.standing.mark,
        Decision.ASK_AGAIN,
    ),
    Row("r = R, no usable answer", lambda c: c.retry.round == c.standing.round and not c.usable, Decision.ASK_AGAIN),
    Row("r = R", lambda c: c.retry.round == c.standing.round, Decision.DELIVER),
    Row("r = R - 1", lambda c: c.retry.round == c.standing.round - 1, Decision.ASK_AGAIN),
    Row("r < R - 1", lambda _: True, Decision.ALREADY),
)


def decide(retry: Retry, standing: Standing) -> tuple[Decision, Case]:
    """The decision for `retry`, and the case it was made on."""
    recorded = next((item for item in standing.answered if item.round == retry.round), None)
    keys = standing.asks if recorded is None else recorded.keys
    answers = usable(retry.answers, keys)
    case = Case(retry, standing, recorded, answers, digest(answers))
    return next(row.then for row in ROWS if row.holds(case)), case
