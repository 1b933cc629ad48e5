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
from collections.abc import Callable, Mapping
from random import Random
from typing import Any, ClassVar

from framehold.code.codes import Kept, NotKept, NotLoaded
from framehold.frame.asks import Question
from framehold.frame.frame import Frame
from framehold_core import journal
from framehold_core.ending import COMPLETED, Ending, How
from framehold_core.errors import InDoubt

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


class Card:
    """A request's carrier."""

    def __init__(self, context: contextvars.Context, came: float) -> None:
        self.variables = context.copy()
        self.handler_context: contextvars.Context | None = None
        self.ending: asyncio.Task[None] | None = None
        self.came = came
        self.may_be_passed_on = False

    def taken_over(self) -> None:
        """Nobody is told."""

    def passed_on(self, address: str) -> None:
        """Nothing is passed on."""

    def runs_kept_code(self) -> None:
        """No code is kept."""

    def refusal(self, asked: Question) -> object | None:
        """Each question can be asked."""
        return None


class Scripted:
    """A handler that carries out a program."""

    principal: str | None = None
    lifetime: float | None = None
    code = definition = ""
    tool = "scripted"
    weight = 0
    enters_kept = False
    known: ClassVar[dict[Any, Any]] = {}
    prefilled: Mapping[str, Any]
    strategy, given = "hold", b""
    asks = None

    def __init__(self, name: str, program: str, reentrant: bool, ledger: Ledger) -> None:
        self._name, self._program, self._ledger = name, program, ledger
        self.reentrant, self.prefilled = reentrant, {}

    async def enter(self, frame: Frame, given: bytes) -> None:
        if frame.dead:
            return
        self._ledger.entered[self._name] += 1
        self._ledger.say(OWNER.get(), f"{self._name} is entered")
        outcome: object = None
        with frame.scope() as scope:
            try:
                outcome = await self._carry_out(frame)
            except Exception as error:
                outcome = error
        if not scope.cancelled_caught:
            frame.end(outcome)

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

    def ending(self, outcome: object) -> Ending:
        return Ending(How.TOOL_ERROR, type(outcome).__name__) if isinstance(outcome, Exception) else COMPLETED

    def describe(self) -> dict[str, str]:
        return {**dict.fromkeys(("code", "method", "target", "args", "principal"), ""), "tool": self.tool}

    def written(self) -> bytes:
        raise NotKept("a program has no code")

    def enter_kept(self, digest: str, kept: Kept, data: bytes) -> None:
        raise NotLoaded("a program has no code")

    def dump(self, outcome: object) -> bytes:
        return str(outcome).encode()

    def load(self, data: bytes) -> object:
        return data.decode()


def expected(name: str, program: str) -> str:
    """What a call comes to, if no effect of it is in doubt."""
    learned = []
    for statement in program.split("; "):
        for atom in statement.split("+"):
            known = {"k": answer_to(atom), "o": f"{atom} of {name}", "i": f"{atom} of {name}"}
            learned.append(known.get(atom[0], atom))
    return "|".join(learned)
