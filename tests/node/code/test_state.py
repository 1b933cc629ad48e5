"""State of the process that wrote the code stays there: the code meets the state of the process that carries it on."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import pytest

from framehold.code.codes import read
from framehold_store.named import Named
from tests.node.code.releases import Files, carried, codes, files_of, problems, registered, release, written

BOUND = {
    "a literal that another module binds": {
        "server.py": "import state\ndef start(word): state.url = word\ndef handler(): return said(), state.url",
        "state.py": "url = ''",
    },
    "one that a third module binds": {
        "server.py": "import state\nfrom boot import start\ndef handler(): return said(), state.url",
        "boot.py": "def start(word):\n    import state\n    state.url = word",
        "state.py": "url = None",
    },
    "a table that another module changes": {
        "server.py": "from state import TABLE\ndef start(word): TABLE['url'] = word\n"
        "def handler(): return said(), TABLE['url']",
        "state.py": "TABLE = {'url': ''}",
    },
    "a table of another module that a third one changes": {
        "server.py": "import state\nfrom boot import start\ndef handler(): return said(), state.TABLE['url']",
        "boot.py": "import state\ndef start(word): state.TABLE['url'] = word",
        "state.py": "TABLE = {'url': ''}",
    },
    "a list in a table": {
        "server.py": "STATE = {'orders': ['x'], 'n': {'x': [0]}}\ndef start(word): STATE['orders'].append(word)\n"
        "def handler(): return said(), STATE['orders'][1]",
    },
    "a table in a table": {
        "server.py": "STATE = {'n': {'x': ['']}}\ndef start(word): STATE['n']['x'][0] = word\n"
        "def handler(): return said(), STATE['n']['x'][0]",
    },
    "a table in a table of a class": {
        "server.py": "class Desk:\n    state = {'n': {'x': ''}}\n    def say(self): return said()\n"
        "def start(word): Desk.state['n']['x'] = word\ndef handler(): return Desk().say(), Desk.state['n']['x']",
    },
    "an imported literal that is assigned again": {
        "server.py": "import os\nfrom defaults import URL\nURL = os.environ['WORD'] or URL\n"
        "def handler(): return said(), URL",
        "defaults.py": "URL = 'x'",
    },
    "an imported literal that a function binds": {
        "server.py": "from defaults import URL\ndef start(word):\n    global URL\n    URL = word\n"
        "def handler(): return said(), URL",
        "defaults.py": "URL = 'x'",
    },
    "an attribute of a class that another module binds": {
        "server.py": "from deps import Deps\ndef start(word): Deps.url = word\ndef handler(): return said(), Deps.url",
        "deps.py": "class Deps:\n    url = None",
    },
    "one of a class that has changed": {
        "server.py": "class Deps:\n    url = None\n    def say(self): return said()\nfrom boot import start\n"
        "def handler(): return Deps().say(), Deps.url",
        "boot.py": "def start(word):\n    import server\n    server.Deps.url = word",
    },
    "a table in a class that is filled": {
        "server.py": "class Deps:\n    all = {}\n    def say(self): return said()\n"
        "def start(word): Deps.all['url'] = word\ndef handler(): return Deps().say(), Deps.all['url']",
    },
    "an attribute of a class that is computed": {
        "server.py": "import os\nclass Deps:\n    url = os.environ['WORD']\n    def say(self): return said()\n"
        "def handler(): return Deps().say(), Deps.url",
    },
    "an attribute of a class that is computed from another": {
        "server.py": "import os\nfrom pathlib import Path\nclass Deps:\n    url = os.getenv('WORD')\n"
        "    urls = [url, Path('x')]\n    def say(self): return said()\n"
        "def handler(): return Deps().say(), Deps.urls[0]",
    },
}
"""A handler of a word that `start` sets when its process begins, in each of these ways."""


def _release(text: str | Files, says: str) -> Files:
    return {**(files := files_of(text)), "server.py": f"def said(): return {says!r}\n{files['server.py']}"}


@pytest.mark.parametrize("kind", BOUND)
def test_what_code_binds_is_that_of_the_present_process(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old value is not in the bytes, and the digest is the same before and after, and in the next process."""
    digests = []
    for word in ("one", "the-old-word"):
        monkeypatch.setenv("WORD", word)
        with release(tmp_path / word, _release(BOUND[kind], "old")) as module:
            handler = registered(module.handler)
            digests.append(codes().of(handler).digest)
            vars(module).get("start", str)(word)
            digests.append(codes().of(handler).digest)
            data = codes().write(handler)
    assert len(set(digests)) == 1 and b"the-old-word" not in data
    monkeypatch.setenv("WORD", "new")
    with release(tmp_path / "after", _release(BOUND[kind], "new")) as module:
        vars(module).get("start", str)("new")
        assert read(data).handler.function() == ("old", "new")


def test_a_table_that_a_call_was_handed_and_has_changed_is_no_constant(tmp_path: Path) -> None:
    text = (
        "SHELF = {'tea': 5}\ndef take(shelf, what): shelf[what] -= 1\n"
        "def handler():\n    take(SHELF, 'tea')\n    return said(), SHELF['tea']"
    )
    data = written(tmp_path / "before", _release(text, "old"), first=lambda module: module.handler())
    with release(tmp_path / "after", _release(text, "new")) as module:
        assert read(data).handler.function() == ("old", 4) and module.SHELF == {"tea": 4}


@pytest.mark.parametrize("where", ["state", "server"])
def test_a_literal_that_is_bound_where_nobody_sees_it_is_no_constant(where: str, tmp_path: Path) -> None:
    says = "state.url" if where == "state" else "url"
    files = {
        "server.py": f"import state\nfrom state import url\ndef handler(): return said(), {says}",
        "state.py": "url = ''",
    }
    bind = {"url": "the-old-word"}
    data = written(tmp_path / "before", _release(files, "old"), first=lambda _: vars(sys.modules[where]).update(bind))
    with release(tmp_path / "after", _release(files, "new")):
        vars(sys.modules[where])["url"] = "new"
        assert read(data).handler.function() == ("old", "new")


def test_a_class_that_has_changed_makes_its_one_object_again(tmp_path: Path) -> None:
    """That of the present process is of another class."""
    text = (
        "class Only:\n    one = None\n    def say(self): return said()\n    @classmethod\n    def get(cls):\n"
        "        cls.one = cls.one or cls()\n        return cls.one\ndef handler(): return Only.get().say()"
    )
    data = written(tmp_path / "before", _release(text, "old"), first=lambda module: module.handler())
    with release(tmp_path / "after", _release(text, "new")) as module:
        assert (module.handler(), read(data).handler.function(), module.handler()) == ("new", "old", "new")


GIVEN = {
    "a default": ("def handler(url=os.environ['WORD']): return url", "the default of 'url' of server.handler"),
    "a keyword default": (
        "def handler(*, url='x' + os.environ['WORD']): return url",
        "the default of 'url' of server.handler",
    ),
    "a default by a global": (
        "URL = os.getenv('WORD')\ndef handler(url=URL): return url",
        "the default of 'url' of server.handler",
    ),
    "a default by an entry": (
        "T = {'a': os.environ['WORD']}\ndef handler(url=T['a']): return url",
        "the default of 'url' of server.handler",
    ),
    "a time": (
        "import datetime\ndef handler(url=str(datetime.datetime.now())): return url",
        "the default of 'url' of server.handler",
    ),
    "a default of a method": (
        "class Desk:\n    url = [os.environ['WORD']]\n    def say(self, *, url=url): return url\n"
        "def handler(): return Desk().say()",
        "the default of 'url' of server.Desk.say",
    ),
    "an object that reads the environment by itself": (
        "class BaseSettings:\n    def __init__(self): self.url = os.environ['WORD']\n"
        "class Settings(BaseSettings): pass\n"
        "def handler(url=Settings()): return url",
        "the default of 'url' of server.handler",
    ),
    "an object that is given it": (
        "class Client:\n    def __init__(self, url): self.url = url\n"
        "def handler(client=Client(os.environ['WORD'])): return client",
        "the default of 'client' of server.handler",
    ),
    "a field of a model": (
        "from pydantic import BaseModel, Field\nclass Form(BaseModel):\n    url: str = Field(os.environ['WORD'])\n"
        "def handler(): return Form()",
        "the field 'url' of server.Form",
    ),
    "a field of a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass Row:\n    url: str = os.environ['WORD']\n"
        "def handler(): return Row()",
        "the field 'url' of server.Row",
    ),
    "a field of a named tuple": (
        "from typing import NamedTuple\nclass Row(NamedTuple):\n    url: str = os.environ['WORD']\n"
        "def handler(): return Row()",
        "the field 'url' of server.Row",
    ),
}
"""Where a function or a class holds what was read from its process, and how that is named."""


@pytest.mark.parametrize("kind", GIVEN)
def test_what_a_function_or_a_class_was_given_by_its_process_is_not_kept(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "secret")
    text, named = GIVEN[kind]
    (problem,) = problems(tmp_path / "before", f"import os\n{text}")
    assert problem == f"{named} is read from the process when its module is imported; read it when it is used"


PLAIN = {
    "a text that is joined": "B = ', '.join(c for c in ('a', 'b'))\ndef handler(q=Field('a', description=B)): return q",
    "no default of a field": "def handler(q=Field(description='|'.join(sorted({'a'})))): return q",
    "a limit from the environment": "MAX = int(os.environ['N'])\ndef handler(q=Field(1, le=MAX)): return q",
    "numbers of libraries": "def handler(a=math.inf, b=sys.maxsize, c=timezone.utc, d=bytes.fromhex('00')): return a",
    "a list of objects": "class Item(BaseModel):\n    a: int\n"
    "class Page(BaseModel):\n    items: list[Item] = [Item(a=1)]\n"
    "def handler(): return Page()",
    "an object with a live one": "class R:\n    def __init__(self, c): self.c = c\nclient = R(os.environ['N'])\n"
    "def handler(r=R(client)): return r",
    "what a factory returned": "def role(name):\n    return Depends(name)\nclass Depends:\n"
    "    def __init__(self, of): self.of = of\ndef handler(r=Depends(role('admin'))): return r",
    "a variable of a loop": "for n in (1, 2):\n    def handler(a=n): return a",
    "a comprehension": "def handler(a=tuple(n for n in (1, 2)), b=[n * 2 for n in range(3)]): return a",
    "a new type": "from typing import NewType\nU = NewType('U', str)\ndef handler(a=U('x')): return a",
    "an entry of a table": "T = {'a': 1}\ndef handler(a=T.get('a')): return a",
    "a pure function": "def mb(n): return n << 20\ndef handler(a=mb(3)): return a",
    "an identifier of a name": "import uuid\ndef handler(a=str(uuid.uuid5(uuid.NAMESPACE_DNS, 'a'))): return a",
    "a clock that is passed on": "import time\nclass Clock:\n    def __init__(self, now): self.now = now\n"
    "def handler(c=(Clock(time.monotonic),)): return c",
    "an attribute of the name of a method": "class Routes:\n    home = '/'\ndef handler(r=str(Routes.home)): return r",
    "an entry beside one of the environment": "T = {'a': 1, 'b': os.environ['N']}\ndef handler(a=T['a']): return a",
    "a choice at import": "if os.sep == '/':\n    S = 1\nelse:\n    S = 2\ndef handler(a=S): return a",
}
"""Defaults that many servers have."""


@pytest.mark.parametrize("kind", PLAIN)
def test_a_default_that_reads_nothing_of_its_process_goes_along(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("N", "3")
    head = "import math, os, sys\nfrom datetime import timezone\nfrom pydantic import BaseModel, Field\n"
    assert problems(tmp_path / "before", head + PLAIN[kind]) == ()


def test_one_module_that_is_no_module_hinders_nothing(tmp_path: Path) -> None:
    """A module may put an object of its own into `sys.modules`."""
    text = "import dataclasses, sys\n@dataclasses.dataclass\nclass Cfg: n: int = 1\nsys.modules['server_cfg'] = Cfg()\n"
    try:
        assert problems(tmp_path / "before", f"{text}TIMEOUT = 3\ndef handler(): return TIMEOUT") == ()
    finally:
        sys.modules.pop("server_cfg", None)


def test_what_a_class_or_a_function_says_of_itself_goes_along(tmp_path: Path) -> None:
    """Fields of libraries, options, sentinels and functions, constants of the same class; a pool goes by name."""
    text = (
        "import dataclasses, logging, types\nfrom pydantic import AliasChoices, BaseModel, ConfigDict, Field\n"
        "pool, NOT = types.SimpleNamespace(), object()\n"
        "class Form(BaseModel):\n    model_config = ConfigDict(extra='forbid')\n"
        "    word: str = Field('old', min_length=1, validation_alias=AliasChoices('word', 'w'))\n"
        "    words: list[str] = Field(default_factory=list, description='old words')\n"
        "@dataclasses.dataclass(frozen=True)\nclass Row:\n"
        "    word: str = dataclasses.field(default='old', repr=False)\n"
        "class Desk:\n    form, row = Form(), Row()\n    logger = logging.getLogger(__name__)\n"
        "    one = 'old'\n    two = (one, one)\n    options = Form(word='old')\n"
        "    def say(self, word=one, form=Form(), row=Row('old'), pool=pool, missing=dataclasses.MISSING, none=NOT):\n"
        "        return {word, form.word, row.word, self.two[1], self.options.word}, pool, missing, none\n"
        "def handler(): return Desk().say()"
    )
    data = written(tmp_path / "before", text)
    with release(tmp_path / "after", text.replace("old", "new")) as module:
        said, *by_name = read(data).handler.function()
        assert said == {"old"} and by_name == [module.pool, dataclasses.MISSING, module.NOT]


ALWAYS = {
    "an imported constant": "WORD",
    "one of another name": "AGAIN",
    "one of a module": "words.WORD",
    "one of a library": "('old', logging.INFO)[0]",
    "one of a class": "words.Desk.WORD",
    "the value of an enum's member": "words.Kind.ONE.value",
    "an item of a table": "TABLE['a']",
    "what a function makes of constants": "max('a', ''.join(sorted([WORD])), key=len)",
    "what a table of functions has": "{'a': words.said}['a']()",
}
"""What stands in a source and has the same value in every process."""


@pytest.mark.parametrize("kind", ALWAYS)
def test_what_always_has_the_same_value_is_kept_with_what_was_given_it(kind: str, tmp_path: Path) -> None:
    says, given = ALWAYS[kind], "def handler(word={says}): return word, Desk.word, Row().word"
    if kind == "what a table of functions has":
        says, given = (
            says.removesuffix("()"),
            given.replace("return word, Desk.word, Row().word", "return [word()] * 3"),
        )
    text = (
        "import dataclasses, logging, words\nfrom words import WORD, WORD as AGAIN\nfrom words import *\n"
        f"class Desk:\n    word = {says}\n@dataclasses.dataclass\nclass Row:\n    word: str = {says}\n"
    )
    files = {
        "server.py": text + given.format(says=says),
        "words.py": "import enum\nWORD = 'old'\nTABLE = {'a': WORD}\ndef said(): return WORD\n"
        "class Desk:\n    WORD = WORD\nclass Kind(enum.Enum):\n    ONE = 'old'",
    }
    after = {**files, "words.py": files["words.py"].replace("old", "new")}
    assert set(carried(tmp_path, files, after)) == {"old"}


COLLECTS = {
    "a counter": "counts = collections.Counter()\n    def note(self, x): Desk.counts[x] += 1",
    "a table with defaults": "rows = collections.defaultdict(list)\n    def note(self, x): self.rows[x].append(x)",
    "a queue": "last = collections.deque(maxlen=3)\n    def note(self, x): self.last.append(x)",
    "a set of weak references": "live = weakref.WeakSet()\n    def note(self, x): Desk.live.add(self)",
    "a bound one": "made = collections.Counter('a')\n    def note(self, x): Desk.made = collections.Counter(x)",
}
"""Classes that collect something in an attribute."""


@pytest.mark.parametrize("kind", COLLECTS)
def test_what_a_class_collects_leaves_its_digest_as_it_was(kind: str, tmp_path: Path) -> None:
    text = f"import collections, weakref\nclass Desk:\n    {COLLECTS[kind]}\ndef handler(x): return Desk().note(x)"
    with release(tmp_path / "only", text) as module:
        before = codes().of(registered(module.handler))
        module.handler("x")
        after = codes().of(registered(module.handler))
        assert before == after and after.problems == ()
        assert read(codes().write(registered(module.handler))).known[Named("server", "Desk")] is module.Desk


def test_code_that_is_loaded_leaves_the_methods_of_present_classes(tmp_path: Path) -> None:
    """Also those that no name leads to, such as what a decorator without `wraps` has made."""
    text = (
        "OPEN = set()\ndef deco(fn):\n    def inner(self):\n        OPEN.add(1)\n        return fn(self)\n"
        "    return inner\n"
        "class Job:\n    @deco\n    def run(self): return 1\ndef handler(): return Job().run()"
    )
    with release(tmp_path / "only", text) as module:
        data, run = codes().write(registered(module.handler)), module.Job.run
        before = codes().of(registered(module.handler)).digest
        assert read(data).handler.function() == 1
        assert module.Job.run is run and codes().of(registered(module.handler)).digest == before


def test_a_default_that_comes_by_way_of_other_modules_is_read_from_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORD", "secret")
    files = {
        "shop/__init__.py": "from .settings import URL\n",
        "shop/settings.py": "import os\nURL = os.environ['WORD']\n",
        "server.py": "from shop import URL\ndef handler(url=URL): return url",
    }
    (problem,) = problems(tmp_path / "before", files)
    assert problem.startswith("the default of 'url' of server.handler is read from the process")
