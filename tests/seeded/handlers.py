"""Handlers of the seeded world: a program is carried out on a real frame.

A program is a list of statements, as `k1; o1; i1; k2+k3`:

    k1       ask a question, and learn its answer
    k2+k3    ask two questions at once
    o1       an effect under `once`
    t1       an effect under `once` that is no coroutine function: it runs in a thread
    e1       an effect under `once` that raises
    i1       an effect that was declared idempotent
    v        a recorded value
    s        wait a little
    p        a message to the client: what was heard before is stored first
    x1       the process ends here, the first times
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from framehold.code.codes import LoadedCode
from framehold.frame.asks import Question
from framehold.frame.frame import Frame
from framehold_core import journal
from framehold_core.errors import InDoubt
from tests.kit.engine import Carrier, ScriptHandler

from .loop import OWNER
from .places import never
from .plan import Intent
from .releases import TOOL, Release

if TYPE_CHECKING:
    from .world import World

DOUBT, MALFORMED = "in doubt", "malformed"


def _read(answer: object) -> str:
    if answer == MALFORMED:
        raise ValueError(MALFORMED)
    return str(answer)


def answers_to(key: str) -> tuple[str, str]:
    """What clients answer: mostly the first; a request that is sent twice may have the second."""
    return f"{key}!", f"{key}?"


class Ledger:
    """What handlers did, as the world sees it: it outlives each process."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.entered: Counter[str] = Counter()
        self.began: Counter[tuple[str, str]] = Counter()
        self._died: Counter[tuple[str, str]] = Counter()

    def enters(self, call: str, again: bool, release: str) -> None:
        """A handler is entered by a release. `again`: it may be entered more than once."""
        self.entered[call] += 1
        self._world.say(OWNER.get(), f"{call} is entered by the {release} release")
        self._world.watch.entered(call, again, self.entered[call])
        self._world.released(call, release)

    async def effect(self, call: str, key: str, learned: str) -> str:
        """An effect outside of the fleet. Its handler had `learned` so much."""
        if self._world.loop.is_killed(OWNER.get()):
            await never()
        self._begin(call, key, learned)
        await asyncio.sleep(self._world.random.choice((0.0, 0.01, 0.3, 1.2)))
        self._world.say(OWNER.get(), f"{call} effect {key} ends")
        return f"{key} of {call}"

    def effect_in_thread(self, call: str, key: str, learned: str) -> str:
        """An effect outside of the fleet, by a function that is no coroutine function."""
        self._begin(call, key, learned)
        return f"{key} of {call}"

    async def effect_that_raises(self, call: str, key: str, learned: str) -> str:
        """An effect outside of the fleet that ends with an error."""
        raise ValueError(await self.effect(call, key, learned))

    def _begin(self, call: str, key: str, learned: str) -> None:
        self.began[call, key] += 1
        self._world.say(OWNER.get(), f"{call} effect {key} begins")
        self._world.begins(call, key)
        self._world.recorded(call, key, learned)

    async def die(self, call: str, key: str, times: int) -> None:
        """The process ends, unless it did so `times` times."""
        self._died[call, key] += 1
        if self._died[call, key] <= times:
            self._world.kill(OWNER.get(), 0.3)
            await never()


def carrier_at(context: contextvars.Context) -> Carrier:
    """The carrier of a request that has come to the process of `context`."""
    made = Carrier()
    made.variables, made.came = context.copy(), 0.0
    return made


class Scripted(ScriptHandler):
    """A handler that carries out a program."""

    tool = TOOL

    def __init__(self, name: str, intent: Intent, release: Release, ledger: Ledger) -> None:
        strategy = "replay" if intent.carried else "hold"
        super().__init__(self._carry_out, reentrant=intent.marked, strategy=strategy)
        self._name, self._intent, self._ledger = name, intent, ledger
        self._release, self.release, self.code = release, release.name, release.digest

    async def enter(self, frame: Frame, given: bytes) -> None:
        self._ledger.enters(self._name, self.reentrant or self._intent.carried, self.release)
        await super().enter(frame, given)

    def describe(self) -> dict[str, str]:
        return {**super().describe(), "tool": self.tool, "code": self.code if self.reentrant else ""}

    def written(self) -> bytes:
        return self._release.written

    def enter_kept(self, digest: str, kept: LoadedCode, data: bytes) -> None:
        self.release, self.enters_kept = kept.handler.function(), True

    async def _carry_out(self, frame: Frame) -> str:
        learned: list[str] = []
        for statement in self._intent.program.split("; "):
            known, atoms = "|".join(learned), statement.split("+")
            if len(atoms) == 1:
                learned.append(await self._do(frame, statement, known))
            else:
                learned += await asyncio.gather(*(self._do(frame, atom, known) for atom in atoms))
        return "|".join(learned)

    async def _do(self, frame: Frame, atom: str, learned: str) -> str:
        if atom[0] == "k":
            text = f"{atom} after {learned}, by the {self.release} release"
            asked = Question("elicit", {"asks": atom, "after": learned}, journal.digest(text.encode()), _read)
            return str(await frame.ask(asked))
        if atom[0] == "s":
            await asyncio.sleep(0.03)
            return atom
        if atom[0] == "v":
            return "v" if frame.recorded.value("random", None, lambda entropy, name: 0.5) == 0.5 else "?"
        if atom[0] == "p":
            await frame.results_stored()
            return atom
        if atom[0] == "x":
            await self._ledger.die(self._name, atom, self._intent.deaths)
            return atom
        ledger = self._ledger
        effect = {"t": ledger.effect_in_thread, "e": ledger.effect_that_raises}.get(atom[0], ledger.effect)
        try:
            found = await frame.recorded.once(atom, effect, (self._name, atom, learned), {}, atom[0] == "i")
            return str(found)
        except InDoubt:
            return DOUBT
        except ValueError as error:
            return str(error)


def expected(name: str, program: str) -> list[tuple[str, ...]]:
    """What a call comes to, atom by atom: one of these."""
    known: dict[str, Callable[[str], tuple[str, ...]]] = {
        "k": answers_to,
        "i": lambda atom: (f"{atom} of {name}",),
        "o": lambda atom: (f"{atom} of {name}", DOUBT),
        "e": lambda atom: (f"{atom} of {name}", DOUBT),
        "t": lambda atom: (f"{atom} of {name}", DOUBT),
    }
    atoms = [atom for statement in program.split("; ") for atom in statement.split("+")]
    return [known[atom[0]](atom) if atom[0] in known else (atom,) for atom in atoms]
