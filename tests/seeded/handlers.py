"""Handlers of the seeded world: a program is carried out on a real frame.

A program is a list of statements, as `k1; o1; i1; k2+k3`:

    k1       ask a question, and learn its answer
    k2+k3    ask two questions at once
    o1       an effect under `once`
    i1       an effect that was declared idempotent
    v        a recorded value
    s        wait a little
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from random import Random

from framehold.frame.asks import Question
from framehold.frame.frame import Frame
from framehold_core import journal
from framehold_core.errors import InDoubt
from tests.node.desk import Card, Talk

from .loop import OWNER

DOUBT = "in doubt"


def answer_to(key: str) -> str:
    """What each client answers."""
    return f"{key}!"


class Ledger:
    """What handlers did, as the world sees it: it outlives each process."""

    def __init__(self, say: Callable[[str, str], None], random: Random, begins: Callable[[str, str], None]) -> None:
        self.say, self._random, self._begins = say, random, begins
        self.wrong: list[Exception] = []
        self.entered: Counter[str] = Counter()
        self.began: Counter[tuple[str, str]] = Counter()

    async def effect(self, call: str, key: str) -> str:
        """An effect outside of the fleet."""
        self.began[call, key] += 1
        self.say(OWNER.get(), f"{call} effect {key} begins")
        try:
            self._begins(call, key)
        except Exception as error:
            self.wrong.append(error)
        await asyncio.sleep(self._random.choice((0.0, 0.01, 0.3, 1.2)))
        self.say(OWNER.get(), f"{call} effect {key} ends")
        return f"{key} of {call}"


def card(context: contextvars.Context) -> Card:
    """The carrier of a request that has come to the process of `context`."""
    made = Card()
    made.variables, made.came = context.copy(), 0.0
    return made


class Scripted(Talk):
    """A handler that carries out a program."""

    tool = "scripted"

    def __init__(self, name: str, program: str, reentrant: bool, ledger: Ledger) -> None:
        super().__init__(self._carry_out, reentrant=reentrant)
        self._name, self._program, self._ledger = name, program, ledger

    async def enter(self, frame: Frame, given: bytes) -> None:
        self._ledger.entered[self._name] += 1
        self._ledger.say(OWNER.get(), f"{self._name} is entered")
        await super().enter(frame, given)

    def describe(self) -> dict[str, str]:
        return {**super().describe(), "tool": self.tool}

    async def _carry_out(self, frame: Frame) -> str:
        learned: list[str] = []
        for statement in self._program.split("; "):
            learned += await asyncio.gather(
                *(self._do(frame, atom, "|".join(learned)) for atom in statement.split("+"))
            )
        return "|".join(learned)

    async def _do(self, frame: Frame, atom: str, learned: str) -> str:
        if atom[0] == "k":
            text = f"{atom} after {learned}"
            asked = Question("elicit", {"asks": atom}, journal.digest(text.encode()), str)
            return str(await frame.ask(asked))
        if atom[0] == "s":
            await asyncio.sleep(0.03)
            return atom
        if atom[0] == "v":
            return "v" if frame.recorded.value("random", None, lambda entropy, name: 0.5) == 0.5 else "?"
        try:
            found = await frame.recorded.once(atom, self._ledger.effect, (self._name, atom), {}, atom[0] == "i")
            return str(found)
        except InDoubt:
            return DOUBT


def expected(name: str, program: str) -> str:
    """What a call comes to, if no effect of it is in doubt."""
    learned = []
    for statement in program.split("; "):
        for atom in statement.split("+"):
            known = {"k": answer_to(atom), "o": f"{atom} of {name}", "i": f"{atom} of {name}"}
            learned.append(known.get(atom[0], atom))
    return "|".join(learned)
