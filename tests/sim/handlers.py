"""Scripted handlers: tasks that ask, gather and run effects, and that are entered again from a journal.

A frame runs until every task waits, like a loop that has settled; `next_event` says what the core should hear then.
Every question's text contains what the handler has learned so far, so two histories never ask alike by accident.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from framehold_core import journal
from framehold_core.call import Phase
from framehold_core.ending import Ending, How
from framehold_core.errors import DivergenceError
from framehold_core.events import Asked, Diverged, Event, Finished, Intended, Noted, Rebuilt, Resulted
from framehold_core.journal import Draft, Entry, EntryKind, EntryLane
from framehold_core.replay import Cursor, Once
from framehold_core.value import replace
from framehold_core.writes import once_digest

from .changes import key

Program = tuple[tuple[tuple[str, ...], ...], ...]
DOUBT = "in-doubt"
HEARS_END = (
    Phase.RUNNING,
    Phase.PARKING,
    Phase.PARKED,
    Phase.RELEASING,
    Phase.VERIFYING,
    Phase.HEALING,
    Phase.STRANDED,
)


@lru_cache
def parse(text: str) -> Program:
    """Statements, their branches, and the atoms of each branch."""
    statements = [part.strip() for part in text.split(";") if part.strip()]
    return tuple(tuple(tuple(branch.split(",")) for branch in part.split("+")) for part in statements)


def is_fragile(program: str) -> bool:
    """Whether a timer decides what is recorded: then replay may diverge, and says so (docs/protocol.md, rule 12)."""
    return "t" in program.rpartition(";")[0] or ("t" in program and "," in program)


def opened(sealed: bytes) -> str:
    """What a sealed value says: the nonce is cut off."""
    return sealed.partition(b":")[2].decode()


def ended(text: str) -> Ending:
    """How a handler ends that comes to `text`: each is told apart from every other."""
    return Ending(How.TOOL_ERROR, "Ended", text)


class Task:
    """One branch: the atoms still to do, and what its present one waits for. `learned` is what the handler had learned
    when the branch began."""

    def __init__(self, atoms: tuple[str, ...], lane: EntryLane, learned: tuple[str, ...]) -> None:
        self.learned = learned
        self.detached = atoms[0][0] == "~"
        self.atoms = tuple(atom.lstrip("~") for atom in atoms)
        self.lane, self.at, self.begun = lane, 0, False

    @property
    def ended(self) -> bool:
        return self.at == len(self.atoms)


class Frame:
    """One entry into a handler. `entries` is what it is rebuilt from, `came` what it came to so far by kind and key,
    with the fingerprint, and `known` what it goes on with."""

    def __init__(self, number: int, program: str, entries: tuple[Entry, ...], rebuilding: bool) -> None:
        self.number = number
        self.rebuilding = rebuilding
        self.pending: dict[str, str] = {}
        self.bombs: list[str] = []
        self.timers: list[str] = []
        self.running: set[str] = set()
        self.owed: set[str] = set()
        """The effects whose results this handler has heard, and whose results are not known to be recorded."""
        self.sayings: list[str] = []
        self.asleep = False
        self.entries = entries
        self.came: dict[tuple[EntryKind, str], str] = {}
        self.known: dict[str, str] = {}
        self._cursor = Cursor(entries, _words)
        self._recorded = {item.key for item in entries if item.kind is EntryKind.ASK}
        self._program = parse(program)
        self._tasks: list[Task] = []
        self._statement = -1
        self._learned: list[str] = []
        self._heard: list[str] = []
        self._to_hear: list[tuple[tuple[str, str], ...]] = []
        self._delays: set[str] = set()
        self._unasked: list[Draft] = []
        self._intents: list[str] = []
        self._doubts: list[str] = []
        self._values: list[Draft] = []
        self._told_end = False

    def deliver(self, answers: Iterable[tuple[str, str]]) -> None:
        """Hand answers to the asks that wait."""
        left = tuple((item.key, opened(item.value)) for item in self._cursor.rest())
        self._to_hear += [left, tuple(answers)]

    def keep(self, key: str) -> None:
        """A `once` has its result. `key` is the digest that the core uses."""
        name = next(name for name in self.pending if once_digest(name) == key)
        self._to_hear.append(((name, self.pending.pop(name)),))
        self.owed.add(name)

    def _hear(self, found: Iterable[tuple[str, str]]) -> None:
        """The handler hears answers or results, in this order."""
        for name, value in found:
            self.known[name] = value
            if name in self._heard:
                self._heard.remove(name)
            self._heard.append(name)

    def recorded(self, keys: Iterable[str]) -> None:
        """The results of these effects are durable."""
        self.owed -= {self.name_of(key) for key in keys}

    def says(self, name: str) -> None:
        """A notification of the handler has left the node."""
        self.sayings.remove(name)
        self.known[name] = "said"

    def time_out(self, name: str) -> None:
        """The handler waits no longer for this ask, or this delay is over."""
        self.known.setdefault(name, "timed out")
        self._delays.discard(name)

    def doubt(self, key: str) -> None:
        """The effect may not run now: its outcome is an exception, recorded like any other
        (docs/protocol.md, rule 13)."""
        self._doubts.append(key)

    def name_of(self, key: str) -> str:
        """The author's name of a `once`."""
        return next(name for name in self._names() if once_digest(name) == key)

    def _names(self) -> Iterable[str]:
        return (key(atom.lstrip("~")) for statement in self._program for branch in statement for atom in branch)

    def next_event(self, phase: Phase, round_: int) -> Event | None:
        """What the core should hear now that the handler has settled; None while it waits."""
        try:
            done = self._settle()
            if self.rebuilding:
                return self._rebuild(done)
        except DivergenceError as error:
            return Diverged(str(error))
        if self._values:
            values, self._values = self._values, []
            return Noted(tuple(replace(draft, round=round_) for draft in values))
        if self._doubts:
            key = self._doubts.pop()
            self.pending[self.name_of(key)] = DOUBT
            return Resulted(key, self.result_draft(self.name_of(key), round_))
        if self._intents:
            name = self._intents.pop(0)
            if name[0] == "i":
                return Intended(once_digest(name), None)
            fp = self.came[EntryKind.INTENT, name]
            draft = Draft(EntryKind.INTENT, name, round_, self._lane(name), fp, "json", b"")
            return Intended(once_digest(name), draft)
        if done and not self._told_end and phase in HEARS_END:
            self._told_end = True
            return Finished(self.text(), ended(self.text()))
        if self._unasked and phase is Phase.RUNNING:
            asks = tuple(replace(draft, round=round_ + 1) for draft in self._unasked)
            self._unasked = []
            return Asked(asks)
        return None

    def result_draft(self, name: str, round_: int) -> Draft:
        """The entry for an effect that has run (its result is in `pending`)."""
        value = self.pending[name].encode()
        kind = EntryKind.EFFECT if name[0] == "i" else EntryKind.RESULT
        return Draft(kind, name, round_, self._lane(name), self.came[EntryKind.INTENT, name], "json", value)

    def text(self) -> str:
        """All that this handler has learned, as one word."""
        return journal.digest(journal.canonical(self._learned))[:8]

    def _rebuild(self, done: bool) -> Event | None:
        if self._cursor.live:
            self.rebuilding = False
            return Rebuilt()
        if done:
            # What is left are results of effects that it did not wait for.
            self._cursor.finish()
            self.rebuilding = False
            return Rebuilt()
        if self._delays:
            return None
        return Diverged(str(self._cursor.overdue(0)))

    def _settle(self) -> bool:
        """Run until every task waits, and nothing is left to be heard; whether the handler has ended.

        It hears the next thing when every task waits (docs/protocol.md, rule 12), and nothing more once it has ended.
        """
        moved = True
        while moved:
            moved = False
            for task in self._tasks:
                while not task.ended and self._run(task):
                    moved = True
            if all(task.ended or task.detached for task in self._tasks):
                if self._statement + 1 >= len(self._program):
                    return True
                self._enter_statement()
                moved = True
            if not moved and self.rebuilding:
                found = self._cursor.ready()
                # What is given to nobody who waits for it is lost.
                waited = (
                    item
                    for item in found
                    if {(EntryKind.ASK, item.key), (EntryKind.INTENT, item.key)} & self.came.keys()
                )
                self._hear((item.key, opened(item.value)) for item in waited)
                moved = bool(found)
            elif not moved and self._to_hear:
                self._hear(self._to_hear.pop(0))
                moved = True
        return False

    def _enter_statement(self) -> None:
        if self._statement >= 0:
            waited = [task for task in self._tasks if not task.detached]
            names = [key(atom) for task in waited for atom in task.atoms]
            self._learned += [f"{name}={self.known[name]}" for name in names]
            # What came first shows, as with `asyncio.as_completed`. When a timer goes off is not recorded.
            if len(waited) > 1 and not any(name[0] == "t" for name in names):
                self._learned.append(">".join(name for name in self._heard if name in names))
        self._statement += 1
        branches = self._program[self._statement]
        lane = EntryLane.MAIN if len(branches) == 1 else EntryLane.SIDE
        left = [task for task in self._tasks if not task.ended]
        learned = tuple(self._learned)
        self._tasks = left + [Task(branch, lane, learned) for branch in branches]

    def _run(self, task: Task) -> bool:
        """Begin or finish the task's present atom; whether it moved on."""
        atom = task.atoms[task.at]
        if not task.begun:
            task.begun = True
            self._begin(key(atom), atom, task.lane)
        if key(atom) not in self.known:
            return False
        task.at, task.begun = task.at + 1, False
        return True

    def _begin(self, name: str, atom: str, lane: EntryLane) -> None:
        if name[0] == "x":
            self.bombs.append(name)
        elif name[0] == "d":
            self.timers.append(name)
            self._delays.add(name)
        elif name[0] == "n":
            self._begin_saying(name)
        elif name[0] == "v":
            self._begin_value(name, lane)
        elif name[0] in "kt":
            self._begin_ask(name, atom, lane)
        else:
            self._begin_once(name, atom, lane)

    def _begin_saying(self, name: str) -> None:
        """What is repeated of an earlier frame is not said again."""
        if self.rebuilding and not self._cursor.live:
            self.known[name] = "said"
        else:
            self.sayings.append(name)

    def _begin_ask(self, name: str, atom: str, lane: EntryLane) -> None:
        if name[0] == "t":
            self.timers.append(name)
            self._delays.add(name)
        fp = self.came[EntryKind.ASK, name] = journal.fingerprint("elicit", atom, self.text())
        if self.rebuilding:
            self._cursor.ask(name, fp, lane, atom)
        if name not in self._recorded:
            self._unasked.append(Draft(EntryKind.ASK, name, 0, lane, fp, "json", atom.encode()))

    def _begin_value(self, name: str, lane: EntryLane) -> None:
        fp = self.came[EntryKind.VALUE, name] = journal.fingerprint("value", name)
        found = self._cursor.value(name, fp, lane) if self.rebuilding else None
        self.known[name] = opened(found.value) if found else f"drawn by {self.number}"
        if found is None:
            self._values.append(Draft(EntryKind.VALUE, name, 0, lane, fp, "json", self.known[name].encode()))

    def _begin_once(self, name: str, atom: str, lane: EntryLane) -> None:
        fp = self.came[EntryKind.INTENT, name] = journal.fingerprint("once", atom)
        found = self._cursor.once(name, fp, lane, atom) if self.rebuilding else Once.LIVE
        if found is Once.LIVE or (found is Once.NO_RESULT and name[0] == "i"):
            self._intents.append(name)
        elif found is Once.NO_RESULT:
            self._doubts.append(once_digest(name))

    def arguments(self, name: str) -> str:
        """What the arguments of an effect are made of: all that its branch has learned before it."""
        branch = next(task for task in self._tasks if any(key(atom) == name for atom in task.atoms))
        names = [key(atom) for atom in branch.atoms]
        own = (f"{other}={self.known[other]}" for other in names[: names.index(name)])
        return journal.digest(journal.canonical([*branch.learned, *own]))[:8]

    def _lane(self, name: str) -> EntryLane:
        branches = next(part for part in self._program if any(name in atom for branch in part for atom in branch))
        return EntryLane.MAIN if len(branches) == 1 else EntryLane.SIDE


def _words(item: Entry) -> str:
    return opened(item.value) if item.kind is EntryKind.ASK else ""
