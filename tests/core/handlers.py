"""Random handlers, played live and from a record: what `test_replay_properties` is about.

A script is a list of statements of the handler's own task: one atom, or branches that it gathers. `Live` plays it as a
node does and keeps what the core would write; `Again` plays it from entries, with a `Cursor`. Who of the tasks that can
go on does so is drawn, and so is how fast effects and answers come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from framehold_core.journal import Entry, EntryKind, EntryLane
from framehold_core.replay import Cursor


class Atom(NamedTuple):
    """One thing that a handler does: `fp` is what must be the same again."""

    kind: EntryKind
    key: str
    fp: str


Branch = tuple[Atom, ...]
Script = tuple[tuple[Branch, ...], ...]
Choose = Callable[[int], int]
"""One of so many."""

Reply = frozenset[tuple[str, str]]
"""What one delivery brought: keys and values."""


class Task:
    """One branch. `waits` is the key that it waits for."""

    def __init__(self, atoms: Branch, lane: EntryLane) -> None:
        self.atoms, self.lane, self.at = atoms, lane, 0
        self.waits: Atom | None = None

    @property
    def ended(self) -> bool:
        return self.at == len(self.atoms)


class Player:
    """A script being played. A subclass says what an atom meets."""

    def __init__(self, script: Script, choose: Choose) -> None:
        self.script, self.choose = script, choose
        self.statement = -1
        self.tasks: list[Task] = []
        self.learned: list[tuple[EntryKind, str, str]] = []
        """What the handler went on with, in the order of its own task; within one statement in the branches' order."""

    def meet(self, task: Task, atom: Atom) -> str | None:
        """The handler comes to an atom: what it goes on with at once, None while it waits."""
        raise NotImplementedError

    def between(self) -> None:
        """What may happen before every task waits."""

    def settle(self) -> bool:
        """Let tasks go on until all wait; whether the handler has ended."""
        while True:
            self.between()
            ready = [task for task in self.tasks if not task.ended and task.waits is None]
            if ready:
                task = ready[self.choose(len(ready))]
                atom = task.atoms[task.at]
                value = self.meet(task, atom)
                task.waits = atom
                if value is not None:
                    self.go_on(task, value)
            elif all(task.ended for task in self.tasks):
                if self.statement + 1 == len(self.script):
                    return True
                self.statement += 1
                branches = self.script[self.statement]
                lane = EntryLane.MAIN if len(branches) == 1 else EntryLane.SIDE
                self.tasks = [Task(branch, lane) for branch in branches]
            else:
                return False

    def go_on(self, task: Task, value: str) -> None:
        """What a task waited for is there."""
        assert task.waits is not None
        self.learned.append((task.waits.kind, task.waits.key, value))
        task.at, task.waits = task.at + 1, None

    def hear(self, kind: EntryKind, found: dict[str, str]) -> None:
        """Tasks that wait for one of these go on."""
        for task in self.tasks:
            if task.waits is not None and task.waits.kind is kind and task.waits.key in found:
                self.go_on(task, found[task.waits.key])


class Live(Player):
    """A script played on a node. Writes are atomic, so `cuts` are the lengths at which a journal can stand; `rounds`
    are the deliveries."""

    def __init__(self, script: Script, choose: Choose, prefilled: dict[str, str]) -> None:
        super().__init__(script, choose)
        self.entries: list[Entry] = []
        self.cuts = [0]
        self.rounds: list[Reply] = []
        self.round = 0
        self.prefilled = dict(prefilled)
        self.notes: list[tuple[EntryKind, str, int, EntryLane, str, str]] = []
        self.unasked: list[tuple[Atom, EntryLane]] = []
        self.asked: list[tuple[Atom, EntryLane]] = []
        self.running: dict[str, tuple[Atom, EntryLane]] = {}
        self.results: dict[str, str] = {}
        self.gathered: dict[str, str] = {}
        self.fresh = 0

    def play(self) -> Live:
        """To the end."""
        while not self.settle():
            if self.running and self.choose(2):
                self.effect_ends()
            elif self.asked:
                self.answers_come()
            elif self.unasked:
                self.park(self.unasked)
            else:
                self.effect_ends()
        return self

    def meet(self, task: Task, atom: Atom) -> str | None:
        kind, key, fp = atom
        if kind is EntryKind.VALUE:
            value = self.value(key)
            self.notes.append((kind, key, self.round, task.lane, fp, value))
            return value
        if kind is EntryKind.ASK and key in self.prefilled:
            value = self.prefilled.pop(key)
            self.notes += [(kind, key, 0, task.lane, fp, ""), (EntryKind.ANSWER, key, 0, task.lane, "", value)]
            return value
        if kind is EntryKind.ASK:
            self.unasked.append((atom, task.lane))
            return None
        if key in self.results or key in self.running:
            return self.results.get(key)
        self.running[key] = atom, task.lane
        self.write((kind, key, self.round, task.lane, fp, ""))
        return None

    def value(self, key: str) -> str:
        self.fresh += 1
        return f"{key}#{self.fresh}"

    def write(self, *drafts: tuple[EntryKind, str, int, EntryLane, str, str]) -> None:
        """One write, which takes along what was noted before it."""
        notes, self.notes = self.notes, []
        for kind, key, round_, lane, fp, value in (*notes, *drafts):
            self.entries.append(Entry(len(self.entries), kind, key, round_, lane, fp, "json", value.encode()))
        self.cuts.append(len(self.entries))

    def effect_ends(self) -> None:
        key = sorted(self.running)[self.choose(len(self.running))]
        atom, lane = self.running.pop(key)
        value = self.results[key] = self.value(key)
        self.write((EntryKind.RESULT, key, self.round, lane, atom.fp, value))
        self.rounds.append(frozenset({(key, value)}))
        self.hear(EntryKind.INTENT, {key: value})

    def park(self, asks: list[tuple[Atom, EntryLane]]) -> None:
        self.round += 1
        self.asked = list(asks)
        if asks is self.unasked:
            self.unasked = []
        self.write(*((EntryKind.ASK, atom.key, self.round, lane, atom.fp, "") for atom, lane in self.asked))

    def answers_come(self) -> None:
        """Some of them, in any order; the round is complete when none is missing."""
        left = list(self.asked)
        for _ in range(1 + self.choose(len(left))):
            atom, _ = left.pop(self.choose(len(left)))
            value = self.gathered[atom.key] = self.value(atom.key)
            self.notes.append((EntryKind.ANSWER, atom.key, self.round, EntryLane.MAIN, "", value))
        if left:
            self.park(left)
            return
        found, self.gathered, self.asked = self.gathered, {}, []
        self.rounds.append(frozenset(found.items()))
        self.hear(EntryKind.ASK, found)


class Again(Player):
    """A script played from a record. `rounds` are the deliveries; raises what the cursor raises."""

    def __init__(self, script: Script, choose: Choose, entries: list[Entry]) -> None:
        super().__init__(script, choose)
        self.cursor = Cursor(entries)
        self.rounds: list[Reply] = []
        self.came: list[Atom] = []
        self.results: dict[str, str] = {}

    def play(self) -> Again:
        """Until it is live or has ended.

        Raises:
            DivergenceError: it is not what was recorded.
        """
        while True:
            ended = self.settle()
            if self.listen():
                continue
            # Asked after the answers: the last ones may have brought nothing that may be delivered yet.
            if self.cursor.live:
                return self
            if ended:
                self.cursor.finish()
            raise self.cursor.overdue(1)

    def between(self) -> None:
        # A driver may look for answers while some tasks still sleep: they must not come too early.
        if self.choose(2):
            self.listen()

    def listen(self) -> bool:
        """Hear what may be heard now; whether that was anything."""
        found = self.cursor.ready()
        if found:
            heard = {item.key: item.value.decode() for item in found}
            self.rounds.append(frozenset(heard.items()))
            if found[0].kind is EntryKind.ANSWER:
                self.hear(EntryKind.ASK, heard)
            else:
                self.results |= heard
                self.hear(EntryKind.INTENT, heard)
        return bool(found)

    def meet(self, task: Task, atom: Atom) -> str | None:
        kind, key, fp = atom
        self.came.append(atom)
        if kind is EntryKind.INTENT:
            self.cursor.once(key, fp, task.lane)
            # Its result comes in its turn. What runs again, or for the first time, waits until the frame is rebuilt.
            return self.results.get(key)
        else:
            found = (self.cursor.ask if kind is EntryKind.ASK else self.cursor.value)(key, fp, task.lane)
        return found.value.decode() if isinstance(found, Entry) else None


def atoms(script: Script) -> Iterator[tuple[int, int, int, Atom]]:
    """Each atom of a script with its place."""
    for statement, branches in enumerate(script):
        for branch, line in enumerate(branches):
            yield from ((statement, branch, at, atom) for at, atom in enumerate(line))


def with_atom(script: Script, place: tuple[int, int, int], *instead: Atom) -> Script:
    """The script with something else in one place."""
    statement, branch, at = place
    line = script[statement][branch]
    branches = list(script[statement])
    branches[branch] = (*line[:at], *instead, *line[at + 1 :])
    return (*script[:statement], tuple(branches), *script[statement + 1 :])
