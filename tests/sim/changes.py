"""Changed code: what a handler may look like after its author edited it while calls were under way.

A variant keeps the keys of what it leaves alone. `!` behind an atom says that its key is the old one and the rest is
not: another text of a question, other arguments of a `once`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from framehold_core import journal


@lru_cache
def changed(program: str, how: int) -> str:
    """The variant number `how` of a program; numbers go round."""
    found = tuple(_variants([part.strip() for part in program.split(";") if part.strip()]))
    return found[how % len(found)]


def key(atom: str) -> str:
    """The key of an atom, whatever else of it was changed."""
    return atom.rstrip("!")


def _variants(statements: list[str]) -> Iterator[str]:
    """Each small edit: of an atom, of the order, of what there is."""
    for at, statement in enumerate(statements):
        before, after = statements[:at], statements[at + 1 :]
        for branch in statement.split("+"):
            for atom in branch.split(","):
                if atom.lstrip("~")[0] in "koi":
                    yield _joined(*before, statement.replace(atom, f"{atom}!"), *after)
        yield _joined(*before, "k9", statement, *after)
        yield _joined(*before, "o9", statement, *after)
        yield _joined(*before, *after)
        if after:
            yield _joined(*before, after[0], statement, *after[1:])
    yield _joined(*statements, "k9")


def _joined(*statements: str) -> str:
    return "; ".join(statements)


@lru_cache(maxsize=4096)
def digest(program: str) -> str:
    """The digest by which records and leases name the code of a handler."""
    return journal.digest(program.encode())
