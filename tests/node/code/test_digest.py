"""The digest of a handler's code: equal in every process, and changed by what changes the code."""

from __future__ import annotations

import importlib
import os
import py_compile
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from framehold.code.authors import Authors
from framehold.code.codes import Codes, Registered
from tests.node.code.kinds import KINDS
from tests.node.code.releases import codes, digest, problems, registered, release

TEXT = '''\
"""The shop."""
from __future__ import annotations

import enum
import re
from pydantic import BaseModel, Field, field_validator

RATE = 3
NAMES = {"b", "a", "c"}
TABLE = {"one": 1, "two": 2}


class Colour(enum.Enum):
    def __new__(cls, value, hours=1):
        made = object.__new__(cls)
        made._value_, made.hours = value, hours
        return made

    RED = 1, 48
    BLUE = 2


class Form(BaseModel):
    """What to buy."""

    count: int = Field(3, ge=1)
    colour: Colour = Colour.RED

    @field_validator("count")
    @classmethod
    def whole(cls, value):
        """A whole number."""
        return value


def price(count, rate=RATE):
    """The price."""

    def paid():
        return count * rate

    return paid()


def unused():
    return 1


async def handler(count: int, *, loud: bool = False) -> str:
    """Buy something."""
    try:
        form = Form(count=count)
        if "a" in NAMES and form.count in {1, 2, 3}:
            return f"{price(form.count)} {TABLE} {Colour.RED} {re.sub('a', 'b', 'a')}"
    except ValueError:
        return "no"
'''

SAME = {
    "a comment": ("RATE = 3", "RATE = 3  # of the year"),
    "the docstring of the handler, which clients are sent": ("Buy something.", "Buy many things."),
    "the docstring of a helper": ("The price.", "What it costs."),
    "no docstring at all": ('    """The price."""\n', ""),
    "a function that is not reached": ("return 1\n", "return 2\n"),
    "a line that is broken": ("Form(count=count)", "Form(\n            count=count,\n        )"),
    "the name of a local variable": ("form", "order"),
}
OTHER = {
    "a constant": ("RATE = 3", "RATE = 4"),
    "an item of a set": ('"b", "a"', '"B", "a"'),
    "a value of a table": ('"two": 2', '"two": 3'),
    "the order of a table": ('"one": 1, "two": 2', '"two": 2, "one": 1'),
    "a helper": ("count * rate", "rate + count"),
    "a default": ("rate=RATE", "rate=7"),
    "a field": ("colour: Colour = Colour.RED", "colour: Colour = Colour.BLUE"),
    "a limit of a field": ("ge=1", "ge=0"),
    "the docstring of a model, which clients are sent": ("What to buy.", "What to sell."),
    "a validator": ("return value\n", "return value + 1\n"),
    "which field is validated": ('@field_validator("count")', '@field_validator("colour")'),
    "a member of an enum": ("BLUE = 2", "BLUE = 3"),
    "what an enum's `__new__` sets beside the value": ("RED = 1, 48", "RED = 1, 49"),
    "what is caught": ("except ValueError", "except TypeError"),
    "the name of a parameter": ("loud: bool", "quiet: bool"),
    "the name of a function in a function, which `once` records": ("paid", "billed"),
    "the type of a parameter": ("count: int, *", "count: float, *"),
    "a function of a library": ("re.sub", "re.subn"),
    "a name that is imported from elsewhere": ("import re\n", "import enum as re\n"),
}


@pytest.mark.parametrize("what", [*SAME, *OTHER])
def test_what_changes_the_code_changes_its_digest(what: str, tmp_path: Path) -> None:
    before, after = SAME.get(what) or OTHER[what]
    assert before in TEXT
    is_same = digest(tmp_path / "before", TEXT) == digest(tmp_path / "after", TEXT.replace(before, after))
    assert is_same is (what in SAME)


def _handler() -> None: ...


def test_a_function_with_two_names_has_two_codes() -> None:
    """So has one that serves two methods, or is marked in one of two places: kept code stands for one handler."""
    pay = Registered(_handler, {}, "tools/call", "pay", True)
    others = (pay._replace(name="preview"), pay._replace(method="prompts/get"), pay._replace(reentrant=False))
    known = codes()
    digests = [known.of(each).digest for each in (pay, *others)]
    assert len(set(digests)) == 4
    assert known.of(pay).digest == codes().of(pay).digest == digests[0]


def test_a_function_behind_an_object_counts(tmp_path: Path) -> None:
    """The object goes by name, and its function with it."""
    text = (
        "class Behind:\n    def __init__(self, fn): self.fn = fn\n    def __call__(self): return self.fn()\n"
        "@Behind\ndef helper(): return helper.fn, 'old'\ndef handler(): return helper()"
    )
    assert digest(tmp_path / "a", text) == digest(tmp_path / "b", text)
    assert digest(tmp_path / "c", text) != digest(tmp_path / "d", text.replace("old", "new"))


def test_layers_of_functions_behind_objects_take_steps_in_proportion(tmp_path: Path) -> None:
    """Each object of `update_wrapper` holds its function twice."""
    layers = (f"@Behind\ndef {name}{n}(): return a{n + 1}(), b{n + 1}()\n" for n in range(30) for name in ("a", "b"))
    text = (
        "import functools\nclass Behind:\n    def __init__(self, fn):\n"
        "        functools.update_wrapper(self, fn)\n        self.fn = fn\n"
        f"    def __call__(self): return self.fn()\n{''.join(layers)}def handler(): return a0()"
    )
    asked = 0

    class CountedAuthors(Authors):
        def own(self, module: object) -> bool:
            nonlocal asked
            asked += 1
            assert asked < 20_000
            return super().own(module)

    with release(tmp_path / "a", text) as module:
        assert Codes(CountedAuthors()).of(registered(module.handler)).problems == ()


def test_modules_in_an_archive_have_constants(tmp_path: Path) -> None:
    digests = list[str]()
    for rate in (3, 4, 3):
        archive = tmp_path / f"{len(digests)}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("in_archive.py", f"RATE = {rate}\ndef handler(): return RATE")
        sys.path.insert(0, str(archive))
        importlib.invalidate_caches()
        try:
            module = importlib.import_module("in_archive")
            digests.append(codes().of(registered(module.handler)).digest)
        finally:
            sys.path.remove(str(archive))
            sys.modules.pop("in_archive", None)
    assert digests[0] == digests[2] != digests[1]


def test_a_module_without_a_source_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once: its constants are those of the process that carries a call on."""
    with release(tmp_path / "a", {"server.py": "import rates\ndef handler(): return rates.RATE", "rates.py": ""}):
        (tmp_path / "rates.py").write_text("RATE = 3")
        py_compile.compile(str(tmp_path / "rates.py"), str(tmp_path / "a" / "rates.pyc"))
        (tmp_path / "a" / "rates.py").unlink()
        sys.modules.pop("rates")
        module = importlib.reload(sys.modules["server"])
        for _ in range(2):
            assert codes().of(registered(module.handler)).digest
    assert [record.getMessage() for record in caplog.records] == [
        "the module 'rates' has no source: in calls that go on with their code, its constants are those of the present "
        "process"
    ]


def test_a_file_that_a_deploy_replaces_is_not_the_code_of_this_process(tmp_path: Path) -> None:
    files = {
        "server.py": "import rates\nTABLE = [1, 2]\ndef handler(): return TABLE, rates.RATE",
        "rates.py": "RATE = 3",
    }
    with release(tmp_path / "a", files) as module:
        before = codes().of(registered(module.handler)).digest
        for name in files:
            (tmp_path / "a" / name).write_text("import os\nTABLE = [os.environ, 3]\nRATE = int(os.environ['RATE'])\n")
        assert codes().of(registered(module.handler)).digest == before


def test_code_whose_source_can_not_be_read_now_is_kept_later(tmp_path: Path) -> None:
    with release(tmp_path / "a", "RATE = 3\ndef handler(): return RATE") as module:
        known, handler = codes(), registered(module.handler)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            with pytest.raises(OSError, match="Too many open files"):
                known.write(handler)
            assert not known.of(handler).digest
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert known.of(handler).digest and known.write(handler)


VALIDATED = (
    "from pydantic import validate_call\n@validate_call\ndef word(count: int) -> int: return count\n"
    "def handler(): return word(1)"
)


def test_a_function_that_pydantic_validates_is_not_kept(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path / "validated", VALIDATED)
    assert problem == (
        "'wrapper' in the closure of server.word holds a validator of pydantic, which can't be made again; "
        "validate with a model"
    )


PROGRAM = """
import sys
from framehold.code.authors import Authors
from framehold.code.codes import Codes, Registered
for name in sys.argv[1:]:
    print(Codes(Authors()).of(Registered(__import__(name).handler, {}, "tools/call", "handler", True)).digest)
"""


def test_it_is_equal_in_every_process(tmp_path: Path) -> None:
    """Whatever the hash seed, whether the compiled file is read or written, and wherever the files are."""
    found = []
    texts = {f"kind{number}": text for number, text in enumerate([TEXT, VALIDATED, *KINDS.values()])}
    for seed in ("0", "1", "2", "3", "4"):
        folder = tmp_path / ("same" if seed in ("0", "1") else seed)
        folder.mkdir(exist_ok=True)
        for name, text in texts.items():
            (folder / f"{name}.py").write_text(text)
        path = os.pathsep.join([str(folder), *sys.path])
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM, *texts],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": ""},
            capture_output=True,
            text=True,
            check=True,
        )
        found.append(run.stdout.split())
    assert all(lines == found[0] for lines in found)
    assert len(found[0]) == len(texts) and all(len(line) == 32 for line in found[0])
