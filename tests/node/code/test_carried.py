"""What goes along with a handler's code, and what is the process's own. What can't go along is named when its code is
written, with what to do about it."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from framehold.code.codes import NotKept, NotLoaded, read
from tests.kit.processes import python_path
from tests.node.code.kinds import KINDS, LIVE
from tests.node.code.releases import carried, problems, release, written


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_author_wrote_goes_along(kind: str, tmp_path: Path) -> None:
    """The next release has other words everywhere, or has lost it all."""
    text = KINDS[kind]
    changed = text.replace("old", "new").replace("'ol'", "'ne'").replace("'o'", "'n'").replace("'d'", "'w'")
    assert changed != text
    data = written(tmp_path / "before", text)
    for number, after in enumerate((changed, "")):
        with release(tmp_path / f"after-{number}", after):
            result = read(data).handler.function()
            assert (asyncio.run(result) if inspect.iscoroutine(result) else result) == "old"


@pytest.mark.parametrize("kind", LIVE)
def test_what_lives_in_the_process_is_the_present_one(kind: str, tmp_path: Path) -> None:
    present = LIVE[kind].format(word="new") + "def handler(): return 'the present code'\n"
    assert carried(tmp_path, LIVE[kind].format(word="old"), present) == "new"


def test_the_methods_of_the_authors_object_are_the_old_ones_and_its_state_is_shared(tmp_path: Path) -> None:
    text = "class Desk:\n    def __init__(self): self.n = 0\n"
    text += "    def take(self):\n        self.n += 1\n        return self.n, 'old'\n"
    text += "desk = Desk()\ndef handler(): return desk.take(), desk.take()\n"
    assert carried(tmp_path, text, text.replace("old", "new") + "desk.take()\n") == ((2, "old"), (3, "old"))


def test_a_bound_method_is_a_handler(tmp_path: Path) -> None:
    text = (
        "class Desk:\n    def __init__(self, word): self.word = word\n    def _full(self): return self.word + ' old'\n"
        "    async def say(self): return self._full()\ndesk = Desk('{word}')\nhandler = desk.say\n"
    )
    assert carried(tmp_path, text.format(word="then"), text.format(word="now").replace(" old", " new")) == "now old"


MODULES = {
    "import helpers": "import helpers\ndef handler(): return helpers.word()",
    "import under another name": "import helpers as h\ndef handler(): return h.word()",
    "from a module": "from helpers import word as w\ndef handler(): return w()",
    "a star": "from helpers import *\ndef handler(): return word()",
    "a constant from a module": "from helpers import WORD\ndef handler(): return WORD",
    "a constant of a star": "from helpers import *\ndef handler(): return WORD",
    "a constant of a module": "import helpers\ndef handler(): return helpers.WORD",
}


@pytest.mark.parametrize("kind", MODULES)
def test_the_authors_other_modules_go_along(kind: str, tmp_path: Path) -> None:
    helpers = "WORD = 'old'\ndef word(): return WORD\ndef unused(): return 'x'\n"
    before = {"server.py": MODULES[kind], "helpers.py": helpers}
    after = {"server.py": "", "helpers.py": helpers.replace("old", "new")}
    assert carried(tmp_path, before, after) == "old"


def test_packages_relative_imports_and_circles_go_along(tmp_path: Path) -> None:
    before = {
        "server.py": "import shop.desk\ndef handler(): return shop.desk.say()",
        "shop/__init__.py": "from .words import WORD",
        "shop/desk.py": (
            "from . import words\nfrom .words import end\ndef say(): return words.begin() + end()\ndef o(): return 'o'"
        ),
        "shop/words.py": (
            "WORD = 'l'\ndef begin():\n    from . import desk as now\n    import shop.desk\n    return shop.desk.o()\n"
            "def end(): return WORD + 'd'"
        ),
    }
    after = {name: text.replace("'l'", "'L'").replace("'d'", "'D'") for name, text in before.items()}
    assert carried(tmp_path, before, after) == "old"


def test_an_import_inside_of_a_function_is_the_present_module(tmp_path: Path) -> None:
    """It looks the module up when it runs."""
    text = "def handler():\n    import helpers\n    return helpers.WORD"
    before = {"server.py": text, "helpers.py": "WORD = 'old'"}
    assert carried(tmp_path, before, {**before, "helpers.py": "WORD = 'new'"}) == "new"


def test_code_that_nobody_enters_any_more_is_freed(tmp_path: Path) -> None:
    """A process that meets many releases keeps none of them."""
    text = (
        "import helpers, enum\nfrom pydantic import BaseModel\n"
        "class Word(enum.Enum):\n    ONE = 'one'\nclass Form(BaseModel):\n    word: Word = Word.ONE\n"
        "class Desk:\n    def say(self): return helpers.word(), Form()\ndesk = Desk()\n"
        "def handler(): return desk.say(), Word, Form, helpers\n"
    )
    files = {"server.py": text, "helpers.py": "def word(): return 'one'"}
    data = written(tmp_path / "before", files)
    loaded = []
    with release(tmp_path / "after", files):
        for _ in range(200):
            function = read(data).handler.function
            assert len(function()) == 4
            loaded += [weakref.ref(item) for item in (function, *function()[1:], type(function()[0][1]))]
            del function
            gc.collect(1)
    gc.collect()
    assert [found for found in (one() for one in loaded) if found is not None] == []


WRITES = """\
import sys
RATE = 3
def price(count):
    return count * RATE
def handler(count):
    return price(count)
if __name__ == "__main__":
    from framehold.code.authors import Authors
    from framehold.code.codes import Codes, Registered
    open(sys.argv[1], "wb").write(Codes(Authors()).write(Registered(handler, {}, "tools/call", "handler", True)))
"""
READS = """\
import sys
RATE = 700
def price(count):
    return "another program's price"
from framehold.code.codes import read
print(read(open(sys.argv[1], "rb").read()).handler.function(2))
"""


def test_a_handler_of_the_program_itself_goes_along(tmp_path: Path) -> None:
    """Its module is `__main__`, which is another program in another process."""
    code = tmp_path / "code"
    for name, text in (("writes.py", WRITES), ("reads.py", READS)):
        (tmp_path / name).write_text(text)
        command = [sys.executable, str(tmp_path / name), str(code)]
        env = {**os.environ, **python_path()}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
    assert done.stdout == "6\n"


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
        "the default of 'lock' of server.handler is an object of _thread.lock",
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


NOT_ALONG = {
    "a pydantic dataclass": (
        "from pydantic.dataclasses import dataclass\n@dataclass\nclass Row:\n    n: int\ndef handler(): return Row(1)"
    ),
    "a function under validate_call": (
        "from pydantic import validate_call\n@validate_call\ndef helper(n: int): return n\n"
        "def handler(): return helper(1)"
    ),
    "models that name each other in texts": (
        "from __future__ import annotations\nfrom pydantic import BaseModel\n"
        "class One(BaseModel):\n    two: Two | None = None\n"
        "class Two(BaseModel):\n    one: One | None = None\ndef handler(): return One(two={})"
    ),
    "an enum of a dataclass": (
        "import dataclasses, enum\n@dataclasses.dataclass\nclass Row:\n    n: int\n"
        "class Rows(Row, enum.Enum):\n    ONE = 1\ndef handler(): return Rows.ONE"
    ),
    "a validator of attrs": (
        "import attrs\n@attrs.define\nclass Row:\n"
        "    n: int = attrs.field(validator=attrs.validators.instance_of(int))\n"
        "def handler(): return Row(1)"
    ),
    "a frozen class of attrs with a base": (
        "import attrs\n@attrs.frozen\nclass Base:\n    n: int = 1\n@attrs.frozen\nclass Row(Base):\n    m: int = 1\n"
        "def handler(): return Row()"
    ),
    "a generic base with a hook": (
        "from typing import Generic, TypeVar\nT = TypeVar('T')\nclass Base(Generic[T]):\n"
        "    def __init_subclass__(cls): super().__init_subclass__()\nclass Row(Base[int]): pass\n"
        "def handler(): return Row()"
    ),
}


@pytest.mark.parametrize("what", NOT_ALONG)
def test_what_can_not_go_along_is_named_when_it_is_written(what: str, tmp_path: Path) -> None:
    """The list of docs/writing-tools.md."""
    if "attrs" in what:
        pytest.importorskip("attrs")
    with pytest.raises(NotKept, match=r"it can't be (written|loaded again)|which can't be made again"):
        written(tmp_path / "before", NOT_ALONG[what])


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
