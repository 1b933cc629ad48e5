"""The parts that all versions of the trade-off's tool share: a trip is priced, reserved, discussed and booked.

Law: the versions differ only in what their authors write. Work, questions, effects and text are the same. Each version
notes its entries in the ledger, so that re-executions are counted.
"""

from __future__ import annotations

import hashlib

from pydantic import BaseModel

from framehold_loadtest import ledger
from framehold_loadtest.served.config import ServedSettings

settings = ServedSettings.model_validate({})
RESERVE, BOOK = ledger.EFFECTS
_WORK = 500


class Choice(BaseModel):
    """What is asked for each time."""

    choice: str


def entered(call: str, part: str = "trip") -> None:
    """Note that the handler, or a part of it, begins."""
    ledger.note(settings.ledger, call, ledger.ENTERED, part)


def fare(call: str) -> int:
    """What the trip costs, worked out anew: a fraction of a millisecond of CPU, without an effect."""
    return int.from_bytes(hashlib.pbkdf2_hmac("sha256", call.encode(), b"fare", _WORK)[:2], "big")


def offer(call: str, size: int) -> str:
    """So many characters that belong to a call, which a real tool would fetch once and need again at its end."""
    return (call * (size // len(call) + 1))[:size]


def redeem(kept: str, call: str, size: int) -> None:
    """Use an offer that was kept.

    Raises:
        ValueError: it is not the one that was made.
    """
    if kept != offer(call, size):
        raise ValueError(f"the offer has {len(kept)} characters in place of {size}, or is another one")


def effect(call: str, name: str, key: str = ledger.UNGUARDED) -> None:
    """Have an effect, which nobody takes back."""
    ledger.note(settings.ledger, call, name, key)


def question(number: int, rounds: int, price: int) -> str:
    """The text of a question; `number` counts from 1."""
    return f"Leg {number} of {rounds - 1}, at {price}: which way?"
