"""Tokens: what a client holds, what a node seals, and what nobody without the key can make (docs/protocol.md, I8).

A token is sealed as a whole. The boundary of a node refuses one whose seal is not over these very claims, that is
another user's or another call's, or that has expired; all else that a client says decides where its request goes.
"""

from __future__ import annotations

from typing import NamedTuple

_KEY = "the fleet's key"


class Token(NamedTuple):
    """What a client is given with its questions: the sealed claims, and the keys that were asked. `expires` is in
    seconds of the world."""

    round: int
    epoch: int
    round_history: str
    node: str
    keys: tuple[str, ...]
    call: str
    user: int
    expires: float
    head: str = ""
    """The seal of the head of the call's record."""
    seal: int = 0


def sealed(token: Token) -> Token:
    """The token under the seal that only a node can put on it."""
    return token._replace(seal=_over(token))


def is_good(token: Token, call: str, user: int, now: float) -> bool:
    """Whether a node's boundary lets this token in."""
    return token.seal == _over(token) and (token.call, token.user) == (call, user) and now < token.expires


def forged(token: Token, how: int) -> Token:
    """What a client makes of a token that it holds: another claim under the same seal."""
    made = (
        token._replace(epoch=token.epoch + 1),
        token._replace(round=token.round + 1),
        token._replace(round_history="forged"),
        token._replace(expires=token.expires + 1000.0),
    )
    return made[how % len(made)]


def _over(token: Token) -> int:
    return hash((_KEY, *token[:-1]))
