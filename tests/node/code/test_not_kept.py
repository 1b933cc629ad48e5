"""What can't go along is named when a server starts, with what to do about it."""

from __future__ import annotations

from pathlib import Path

import pytest

from framehold.code.codes import NotLoaded, read
from tests.node.code.releases import carried, problems, written

NOT_KEPT = {
    "a file in a closure": (
        "import io\ndef made():\n    file = io.TextIOWrapper(io.BytesIO())\n"
        "    return lambda: file.read()\nhandler = made()",
        "'file' in the closure of server.made.<locals>.<lambda> is an object of _io.TextIOWrapper",
    ),
    "a lock in a closure": (
        "import asyncio\ndef made():\n    lock = asyncio.Lock()\n    return lambda: lock.locked()\nhandler = made()",
        "'lock' in the closure of server.made.<locals>.<lambda> is an object of asyncio.locks.Lock",
    ),
    "a lock in a default": (
        "import threading\ndef handler(lock=threading.Lock()): return lock",
        "a default of server.handler is an object of _thread.lock",
    ),
    "a helper that holds a generator": (
        "def made():\n    numbers = (n for n in range(3))\n    return lambda: next(numbers)\n"
        "helper = made()\ndef handler(): return helper()",
        "'numbers' in the closure of server.made.<locals>.<lambda> is an object of builtins.generator",
    ),
    "a tree of live objects": (
        "class Leaf:\n    def __init__(self, at): self.at = at\n"
        "def made():\n    tree = [Leaf(at) for at in range(100_000)]\n    return lambda: tree\nhandler = made()",
        "its code can't be read (ValueError: 'tree' in the closure of server.made.<locals>.<lambda> leads to more than "
        "1,000 objects",
    ),
    "a set of live objects that hold it": (
        "class Peer:\n    def __init__(self, peers): self.peers = peers\n"
        "def made():\n    peers = set()\n    peers.update(Peer(peers) for _ in range(50))\n    return lambda: peers\n"
        "handler = made()",
        "'peers' in the closure of server.made.<locals>.<lambda> is an object of builtins.set, which holds itself",
    ),
    "an object whose class does not let itself be read": (
        "class Odd:\n    def __reduce_ex__(self, protocol): raise RuntimeError('no')\n"
        "def made():\n    odd = Odd()\n    return lambda: odd\nhandler = made()",
        "'odd' in the closure of server.made.<locals>.<lambda> is an object of server.Odd",
    ),
}


@pytest.mark.parametrize("what", NOT_KEPT)
def test_what_belongs_to_a_process_is_named(what: str, tmp_path: Path) -> None:
    text, named = NOT_KEPT[what]
    (problem,) = problems(tmp_path / "before", text)
    assert problem.startswith(named) and "make it a global of a module" in problem


def test_a_global_that_is_gone_is_named(tmp_path: Path) -> None:
    text = "import types\nstate = types.SimpleNamespace()\ndef handler(): return state"
    with pytest.raises(NotLoaded, match="module 'server' has no attribute 'state'"):
        carried(tmp_path, text, "")


def test_a_library_that_is_gone_is_named(tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "gone_library.py").write_text("class Thing: pass\n")
    text = (
        f"import sys\nsys.path.append({str(library)!r})\nfrom gone_library import Thing\ndef handler(): return Thing()"
    )
    with pytest.raises(NotLoaded, match="No module named 'gone_library'"):
        carried(tmp_path, text, f"import sys\nsys.path.remove({str(library)!r})\nsys.modules.pop('gone_library')")


def test_code_of_another_python_is_not_read(tmp_path: Path) -> None:
    data = written(tmp_path / "before", "def handler(): return 1")
    head, _, body = data.partition(b"\n")
    for wrong in (head.replace(b"CPython 3", b"CPython 2"), head.replace(b'"format": 1', b'"format": 2'), b"{}", b"?"):
        assert wrong != head
        with pytest.raises(NotLoaded):
            read(wrong + b"\n" + body)


def test_what_is_no_handler_is_not_entered(tmp_path: Path) -> None:
    data = written(tmp_path / "before", "def handler(): return 1")
    head, _, _ = data.partition(b"\n")
    with pytest.raises(NotLoaded, match="holds an object of dict"):
        read(head + b"\n}.")
