"""Where a retry is decided.

A retry names a round r and an epoch; the call stands at round R. `ROWS` is the retry table of
docs/protocol-tables.md, asked from the top; the first row that holds decides. One table serves a live frame and a
record read from the store: both give a `Progress`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from . import journal
from .events import Answer, Retry
from .requests import Answered
from .value import Value


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


class Progress(Value):
    """How far a call has come. `round_history` is the history at which `round` was parked, `asks` are the keys of that
    round's questions, `answered` are the digests of the answers that it and earlier rounds got."""

    epoch: int
    round: int
    round_history: str
    asks: tuple[str, ...]
    answered: tuple[Answered, ...]
    done: bool = False
    lost: bool = False


class RetryCase(Value):
    """One retry against the progress of its call, with what the rows ask about it: `recorded` is what is recorded of
    the retry's round, `usable` are its answers to questions of that round, `digest` is the digest of those."""

    retry: Retry
    progress: Progress
    recorded: Answered | None
    usable: tuple[Answer, ...]
    digest: str


class RetryRow(Value):
    """One line of the table."""

    when: str
    holds: Callable[[RetryCase], bool]
    then: Decision


def usable(answers: Iterable[Answer], keys: Iterable[str]) -> tuple[Answer, ...]:
    """The answers to keys that were asked, in the order in which they were asked. Others are ignored."""
    by_key = {answer.key: answer for answer in answers}
    return tuple([by_key[key] for key in keys if key in by_key])


def digest(answers: Iterable[Answer]) -> str:
    """One digest for a round's answers, whatever their order."""
    # A key's length stands before it, so that no key can pass for two.
    parts = sorted([f"{len(answer.key)}:{answer.key}={answer.digest}" for answer in answers])
    return journal.digest("".join(parts).encode("utf-8", "surrogatepass"))


ROWS: tuple[RetryRow, ...] = (
    RetryRow("token epoch > epoch", lambda c: c.retry.epoch > c.progress.epoch, Decision.NEWER),
    RetryRow("r > R", lambda c: c.retry.round > c.progress.round, Decision.AHEAD),
    RetryRow("recorded, other", lambda c: c.recorded is not None and c.recorded.digest != c.digest, Decision.CONFLICT),
    RetryRow("done", lambda c: c.progress.done, Decision.OUTCOME),
    RetryRow("lost", lambda c: c.progress.lost, Decision.LOST),
    RetryRow("r = R, recorded", lambda c: c.retry.round == c.progress.round and c.recorded is not None, Decision.JOIN),
    RetryRow(
        "r = R, of another history",
        lambda c: c.retry.round == c.progress.round and c.retry.round_history != c.progress.round_history,
        Decision.ASK_AGAIN,
    ),
    RetryRow(
        "r = R, no usable answer", lambda c: c.retry.round == c.progress.round and not c.usable, Decision.ASK_AGAIN
    ),
    RetryRow("r = R", lambda c: c.retry.round == c.progress.round, Decision.DELIVER),
    RetryRow("r = R - 1", lambda c: c.retry.round == c.progress.round - 1, Decision.ASK_AGAIN),
    RetryRow("r < R - 1", lambda _: True, Decision.ALREADY),
)


_TABLE = ROWS
"""The table as it is written here: the look that `_is_next` takes first goes by it."""


def decide(retry: Retry, progress: Progress) -> tuple[Decision, RetryCase]:
    """The decision for `retry`, and the case it was made on."""
    recorded = None
    for item in progress.answered:
        if item.round == retry.round:
            recorded = item
            break
    keys = progress.asks if recorded is None else recorded.keys
    answers = usable(retry.answers, keys)
    case = RetryCase(retry, progress, recorded, answers, digest(answers))
    if ROWS is _TABLE and _is_next(case):
        return Decision.DELIVER, case
    return next(row.then for row in ROWS if row.holds(case)), case


def _is_next(case: RetryCase) -> bool:
    """Whether no row above DELIVER holds, and that one does, as for nearly every retry. A test compares it with the
    table over every case."""
    retry, at = case.retry, case.progress
    return (
        case.recorded is None
        and bool(case.usable)
        and retry.round == at.round
        and retry.epoch <= at.epoch
        and retry.round_history == at.round_history
        and not at.done
        and not at.lost
    )
