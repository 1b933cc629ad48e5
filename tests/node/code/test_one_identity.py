"""What did not change between two releases is one object for the old code and the new; what changed is never mixed."""

from __future__ import annotations

import contextlib
import enum
import gc
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from framehold.code.codes import NotKept, NotLoaded, read, rebound
from tests.node.code.releases import carried, codes, registered, release, written

SAYS = "def word(): return 'old'\n"
"""What each release says otherwise, so that the code of the handler is another."""


def both(tmp_path: Path, text: str, *, changed: str = "") -> tuple[Any, Any]:
    """The module of the next release, and what the kept handler returns there. `changed` is changed there, too."""
    tmp_path.mkdir(exist_ok=True)
    future = "from __future__ import annotations\n"
    text = future + SAYS + text.removeprefix(future) if text.startswith(future) else SAYS + text
    data = written(tmp_path / "before", text)
    after = text.replace("'old'", "'new'").replace("# changed", changed)
    with release(tmp_path / "after", after) as module:
        return module, read(data).handler.function()


SHARED = {
    "a class": "class Word: pass\ndef handler(): return word(), Word",
    "an enum": "import enum\nclass Word(enum.Enum):\n    A = 1\ndef handler(): return word(), Word.A",
    "a function": "def Word(): pass\ndef handler(): return word(), Word",
    "a cached function": (
        "import functools\n@functools.lru_cache\ndef Word(): return object()\ndef handler(): return word(), Word"
    ),
    "a generic function": (
        "import functools\n@functools.singledispatch\ndef Word(value): return 1\n@Word.register\n"
        "def _(value: str): return 2\ndef handler(): return word(), Word"
    ),
    "a class with circles": (
        "class One:\n    def other(self): return Word\n"
        "class Word:\n    def other(self): return One\ndef handler(): return word(), Word"
    ),
    "a sentinel": "Word = object()\ndef handler(other=Word): return word(), other",
    "a dataclass in a dataclass": (
        "import dataclasses\n@dataclasses.dataclass\nclass In:\n    n: int = 0\n"
        "@dataclasses.dataclass\nclass Word:\n    inner: In = dataclasses.field(default_factory=In)\n"
        "def handler(): return word(), type(Word().inner)"
    ),
}


@pytest.mark.parametrize("kind", SHARED)
def test_what_did_not_change_is_the_present_one(kind: str, tmp_path: Path) -> None:
    module, (word, found) = both(tmp_path, SHARED[kind])
    assert word == "old"
    assert found in (vars(module).get("Word"), vars(module).get("In"), getattr(vars(module)["Word"], "A", None))


CHANGED = {
    "its own body": "class Word:\n    pass\n    # changed\ndef handler(): return Word",
    "its base": "class Base:\n    pass\n    # changed\nclass Word(Base): pass\ndef handler(): return Word",
    "a function that it calls": (
        "def n():\n    # changed\n    return 2\nclass Word:\n    def f(self): return n()\ndef handler(): return Word"
    ),
    "a function far away": (
        "".join(f"def f{n}(): return f{n + 1}()\n" for n in range(30))
        + "def f30():\n    # changed\n    return 2\n"
        + "class Word:\n    def f(self): return f0()\ndef handler(): return Word"
    ),
    "two that changed places": (
        "import functools\ndef deco(fn):\n    @functools.wraps(fn)\n    def inner(): return fn()\n    return inner\n"
        "@deco\ndef a():\n    return 1 # changed\n@deco\ndef b():\n    return 2\n"
        "class Word:\n    def f(self): return a(), b()\ndef handler(): return Word"
    ),
}
WITH = {
    "its own body": "x = 1",
    "its base": "x = 1",
    "a function that it calls": "return 3",
    "a function far away": "return 3",
    "two that changed places": "\na, b = b, a",
}


@pytest.mark.parametrize("what", CHANGED)
def test_what_changed_is_the_old_one(what: str, tmp_path: Path) -> None:
    text = CHANGED[what]
    if what == "two that changed places":
        text = text.replace("def handler", "# changed\ndef handler").replace("return 1 # changed", "return 1")
    module, found = both(tmp_path, text, changed=WITH[what].strip())
    assert found is not module.Word and found.__name__ == "Word"


SAME: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "sentinels of libraries": (
        "import dataclasses, inspect\nfrom unittest.mock import sentinel\nfrom pydantic_core import PydanticUndefined\n"
        "@dataclasses.dataclass\nclass Row:\n    n: int = 0\n    # changed\n"
        "def handler(a=dataclasses.MISSING, b=inspect.Parameter.empty, c=sentinel.x, d=PydanticUndefined):\n"
        "    (field,) = dataclasses.fields(Row)\n"
        "    return (a is dataclasses.MISSING, b is inspect.Parameter.empty, c is sentinel.x,\n"
        "            d is PydanticUndefined, field.default_factory is dataclasses.MISSING, Row() == Row(0))",
        "def f(self): pass",
        (True,) * 6,
    ),
    "an enum whose members are made by a constructor": (
        "import enum\nclass Planet(enum.Enum):\n    EARTH = (5, 6)\n    TERRA = (5, 6)\n"
        "    def __init__(self, mass, radius): self.mass, self.radius = mass, radius\n    # changed\n"
        "def handler():\n"
        "    return Planet.EARTH.mass, Planet.EARTH.radius, Planet.TERRA is Planet.EARTH, Planet((5, 6)).name",
        "def g(self): pass",
        (5, 6, True, "EARTH"),
    ),
    "annotations, which mean the classes of the code": (
        "from __future__ import annotations\nimport dataclasses, typing\nfrom pydantic import TypeAdapter\n"
        "@dataclasses.dataclass\nclass In:\n    n: int = 1\n    # changed\n"
        "@dataclasses.dataclass\nclass Row:\n    inner: In\n"
        "def handler():\n"
        "    row = TypeAdapter(Row).validate_python({'inner': {'n': 1}})\n"
        "    return isinstance(row.inner, In), row.inner == In(1), typing.get_type_hints(Row)['inner'] is In",
        "m: int = 2",
        (True, True, True),
    ),
    "a frozen dataclass, which lets nothing be set": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True)\nclass Set:\n    n: int\n"
        "    def say(self): return word(), self.n\nit = Set(2)\ndef handler(): return it.say()",
        "",
        ("old", 2),
    ),
    "an object that guards its attributes": (
        "class Set:\n    def __init__(self, n): self.__dict__['n'] = n\n"
        "    def __setattr__(self, name, value): raise AttributeError('no')\n"
        "    def say(self): return word(), self.n\nit = Set(2)\ndef handler(): return it.say()",
        "",
        ("old", 2),
    ),
}
"""Code, what is changed in it, and what the old code says all the same."""


@pytest.mark.parametrize("what", SAME)
def test_the_old_code_says_the_same(what: str, tmp_path: Path) -> None:
    text, changed, says = SAME[what]
    assert both(tmp_path, text, changed=changed)[1] == says


def test_code_of_a_renamed_module_is_loaded(tmp_path: Path) -> None:
    """It knows its name of then."""
    shop = "import logging\nlog = logging.getLogger(__name__)\ndef say(): return __name__, log.name"
    before = {"server.py": "import shop\ndef handler(): return shop.say()", "shop.py": shop}
    after = {"server.py": "import store\ndef handler(): return store.say()", "store.py": shop}
    assert carried(tmp_path, before, after) == ("shop", "shop")


HOOKS = {
    "a hook of a base": (
        "seen = []\nclass Base:\n    def __init_subclass__(cls, **more):\n        seen.append(helper(cls))\n"
        "def helper(cls): return cls.__name__\nclass Word(Base, extra=1):\n    pass\n    # changed\n"
        "def handler(): return Word, seen, helper"
    ),
    "a metaclass": (
        "seen = []\nclass Meta(type):\n    def __init__(cls, *more):\n        seen.append(cls.__name__)\n"
        "    def __setattr__(cls, name, value): raise AttributeError('no')\n"
        "class Word(metaclass=Meta):\n    pass\n    # changed\ndef handler(): return Word, seen"
    ),
    "a hook of a model": (
        "from pydantic import BaseModel\nseen = []\nclass Base(BaseModel):\n"
        "    @classmethod\n    def __pydantic_init_subclass__(cls, **more): seen.append(cls.__name__)\n"
        "    def __init_subclass__(cls, **more): seen.append(cls.__name__)\n"
        "class Word(Base):\n    n: int = 1\n    # changed\ndef handler(): return Word, seen, Word().n"
    ),
}


@pytest.mark.parametrize("kind", HOOKS)
def test_a_class_that_is_made_again_is_not_registered_again(kind: str, tmp_path: Path) -> None:
    """Neither when the code is loaded, nor when it is written on trial."""
    module, (made, seen, *_) = both(tmp_path, HOOKS[kind], changed="def g(self): pass")
    assert made is not module.Word and type(made) is type(module.Word)
    assert seen is module.seen and seen.count("Word") == (2 if "model" in kind else 1)


def test_a_class_that_a_library_has_registered_goes_by_name(tmp_path: Path) -> None:
    """A table of a database: a second one of its name is an error there."""
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "tables.py").write_text(
        "known = {}\nclass Table:\n    def __init_subclass__(cls):\n        if cls.__name__ in known: raise KeyError\n"
        "        known[cls.__name__] = cls\n"
    )
    path = f"import sys\nsys.path.append({str(library)!r})\n"
    text = path + "import tables\ntables.known.clear()\nclass Word(tables.Table):\n    pass\n    # changed\n"
    try:
        module, (word, found) = both(tmp_path, text + "def handler(): return word(), Word", changed="def g(self): pass")
        assert word == "old" and found is module.Word
    finally:
        sys.path.remove(str(library))
        sys.modules.pop("tables", None)


BASES = {
    "a class": "class Base: pass\n",
    "a class with a hook": "class Base:\n    def __init_subclass__(cls): pass\n",
    "an abstract class": "import abc\nclass Base(abc.ABC):\n    @abc.abstractmethod\n    def say(self): ...\n",
    "a model": "from pydantic import BaseModel\nclass Base(BaseModel): pass\n",
    "an exception": "class Base(Exception): pass\n",
    "a class with slots": "class Base:\n    __slots__ = ('n',)\n",
}


@pytest.mark.parametrize("kind", BASES)
def test_new_calls_do_not_come_to_old_code_by_way_of_a_base(kind: str, tmp_path: Path) -> None:
    """A base has its subclasses: those of one release."""
    text = BASES[kind] + (
        "class Mid(Base): pass\nclass Word(Mid):\n    def say(self): return 1\n    # changed\n"
        "def knows(it): return isinstance(it, Base)\ndef handler(): return Base, Mid, Word, knows(Word())"
    )
    module, (base, mid, made, knows) = both(tmp_path, text, changed="def more(self): return 2")
    assert module.Base.__subclasses__() == [module.Mid] and module.Mid.__subclasses__() == [module.Word]
    assert base.__subclasses__() == [mid] and mid.__subclasses__() == [made] and knows


def test_a_subclass_that_only_the_next_release_has_changes_no_base(tmp_path: Path) -> None:
    text = "class Base: pass\nclass Word(Base): pass\n# changed\ndef handler(): return word(), Base, Word"
    more = "class More(Base): pass\ndef word(): return More"
    module, found = both(tmp_path, text, changed=more)
    assert found == ("old", module.Base, module.Word)


ON_TRIAL = (
    "import dataclasses, enum, typing\nfrom pydantic import BaseModel\n"
    "class Side(enum.Enum):\n    A = 1\n"
    "class Form(BaseModel):\n    side: Side | None = None\n    others: 'list[Form]' = []\n"
    "class Gone(Exception): pass\nclass Row(typing.NamedTuple):\n    side: Side = Side.A\nclass Rows(dict): pass\n"
    "@dataclasses.dataclass(frozen=True, slots=True)\nclass Sku:\n    name: str = ''\n"
    "class Odd:\n    def __init__(self): self.n = 1\n    def __setstate__(self, state): raise ValueError('odd')\n"
    "def made(odd): return lambda: odd\nhandler = made([Side, Form, Gone, Row, Rows, Sku])\n"
    "fails = made([handler, Odd()])"
)


@pytest.mark.parametrize("name", ["handler", "fails"])
def test_what_was_loaded_on_trial_is_gone(name: str, tmp_path: Path) -> None:
    """Its classes are no longer among the subclasses of installed ones, though nothing collects garbage."""
    bases = (enum.Enum, BaseModel, Exception, tuple, dict, object)
    with release(tmp_path / "only", ON_TRIAL) as module, contextlib.ExitStack() as ends:
        gc.collect()
        gc.disable()
        ends.callback(gc.enable)
        before = [set(base.__subclasses__()) for base in bases]
        with pytest.raises(NotKept, match="odd") if name == "fails" else contextlib.nullcontext():
            codes().write(registered(getattr(module, name)))
        assert [set(base.__subclasses__()) for base in bases] == before
        assert not gc.isenabled()


NOT_LOADED = {
    "an enum whose members can't be made of their values": (
        "import enum\nclass Coordinate(bytes, enum.Enum):\n    def __new__(cls, value, label):\n"
        "        made = bytes.__new__(cls, [value])\n        made._value_ = value\n        made.label = label\n"
        "        return made\n    PX = (0, 'P.X')\ndef handler(): return Coordinate.PX",
        r"it can't be loaded again \(TypeError: the members of server.Coordinate",
    ),
    "an object that refuses its state": (
        "class Odd:\n    def __init__(self, n): self.n = n\n"
        "    def __setstate__(self, state): raise ValueError('odd')\n"
        "def made():\n    odd = Odd(1)\n    return lambda: odd\nhandler = made()",
        r"it can't be loaded again \(ValueError: odd\)",
    ),
}


@pytest.mark.parametrize("what", NOT_LOADED)
def test_what_can_not_be_loaded_is_named_when_it_is_written(what: str, tmp_path: Path) -> None:
    text, named = NOT_LOADED[what]
    with pytest.raises(NotKept, match=named):
        written(tmp_path / "before", text)


def test_a_live_object_that_holds_a_class_which_changed_stops_the_old_code(tmp_path: Path) -> None:
    """The old code would not know the enum's member for its own."""
    text = (
        "import enum\nclass Status(enum.Enum):\n    PAID = 1\n    # changed\nclass Desk: pass\n"
        "desk = Desk()\ndesk.first = [Status.PAID]\ndef handler(): return word(), desk.first[0] is Status.PAID"
    )
    assert both(tmp_path / "same", text)[1] == ("old", True)
    with pytest.raises(
        NotLoaded, match=r"server.desk holds an object of server.Status, which is another class in this"
    ):
        both(tmp_path / "other", text, changed="OPEN = 2")


HOLDS = {
    "a model": (
        "from pydantic import BaseModel\nclass Settings(BaseModel):\n    mode: Mode = Mode.LIVE\n"
        "it = Settings()\ndef handler(): return it.mode is Mode.LIVE"
    ),
    "an object with slots": (
        "class Desk:\n    __slots__ = ('mode',)\nit = Desk()\nit.mode = Mode.LIVE\n"
        "def handler(): return it.mode is Mode.LIVE"
    ),
    "a deque": "import collections\nit = collections.deque([Mode.LIVE])\ndef handler(): return it[0] is Mode.LIVE",
    "an object of a subclass": (
        "class Base:\n    # changed\n    x = 1\nclass Sub(Base): pass\nit = dict(a=Sub())\nit.pop('b', None)\n"
        "def handler(): return isinstance(it['a'], Base), Mode"
    ),
    "itself, of a class that the code has, too": (
        "import dataclasses\n@dataclasses.dataclass(frozen=True, slots=True)\nclass Money:\n    n: int\n"
        "    # changed\nit = Money(0)\ndef handler(): return it == Money(0), Mode"
    ),
}


@pytest.mark.parametrize("kind", HOLDS)
def test_whatever_holds_an_object_of_a_class_that_changed_stops_the_old_code(kind: str, tmp_path: Path) -> None:
    text = "import enum\nclass Mode(enum.Enum):\n    LIVE = 1\n    # changed\n" + HOLDS[kind]
    both(tmp_path / "same", text)
    with pytest.raises(NotLoaded, match=r"server.it holds an object of server.\w+, which is another class in this"):
        both(tmp_path / "other", text, changed="X = 2")


DESK = "class Desk:{}\n    def mode(self): return Mode.LIVE\n"
PUT = "it = {}\ndef put(fn):\n    it['mode'] = fn\n    return fn\n"
CALLS = "\ndef handler(): return it['mode']() is Mode.LIVE"
LEADS = {
    "a decorator that is a class": (
        "class loud:\n    def __init__(self, fn): self.fn = fn\n    def __call__(self): return self.fn()\n"
        "@loud\ndef it(): return Mode.LIVE\ndef handler(): return it() is Mode.LIVE"
    ),
    "a namespace": (
        "import types\ndef mode(): return Mode.LIVE\nit = types.SimpleNamespace(mode=mode)\n"
        "def handler(): return it.mode() is Mode.LIVE"
    ),
    "a table that functions are put into": PUT + "@put\ndef mode(): return Mode.LIVE" + CALLS,
    "a bound method in a table": PUT + DESK.format("") + "put(Desk().mode)" + CALLS,
    "a partial in a table": (
        "import functools\n" + PUT + "def mode(n): return Mode.LIVE\nput(functools.partial(mode, 1))" + CALLS
    ),
    "a cached function in a table": (
        "import functools\n" + PUT + "@put\n@functools.cache\ndef mode(): return Mode.LIVE" + CALLS
    ),
    "an object in an object": (
        DESK.format("") + "class Shop: pass\nit = Shop()\nit.desk = Desk()\n"
        "def handler(): return it.desk.mode() is Mode.LIVE"
    ),
    "an object with slots": (
        DESK.format("\n    __slots__ = ()") + "it = Desk()\ndef handler(): return it.mode() is Mode.LIVE"
    ),
    "an object of a class with __new__": (
        DESK.format("\n    def __new__(cls): return super().__new__(cls)")
        + "it = Desk()\ndef handler(): return it.mode() is Mode.LIVE"
    ),
    "another live object behind it": (
        PUT + DESK.format("\n    __slots__ = ()") + "desk = Desk()\n@put\ndef mode(): return desk.mode()" + CALLS
    ),
}


@pytest.mark.parametrize("kind", LEADS)
def test_present_code_that_leads_to_a_class_which_changed_stops_the_old_code(kind: str, tmp_path: Path) -> None:
    """The old code would not know what that code gives it for its own."""
    text = "import enum\nclass Mode(enum.Enum):\n    LIVE = 1\n    # changed\n" + LEADS[kind]
    assert both(tmp_path / "same", text)[1] is True
    with pytest.raises(
        NotLoaded, match=r"server.\w+ holds code that leads to server.Mode, which is another class in this"
    ):
        both(tmp_path / "other", text, changed="X = 2")


FUTURE = "from __future__ import annotations\n"
MODE = "import enum\nclass Mode(enum.Enum):\n    LIVE = 1\n    # changed\nModes = list[Mode]\n"
READS = "\n    return TypeAdapter(Form).validate_python({'modes': [1]}).modes[0] is Mode.LIVE"
IN_FUNCTION = {
    "a model": "from pydantic import BaseModel\ndef handler():\n    class Form(BaseModel):\n        modes: Modes"
    + READS,
    "a dataclass": (
        "import dataclasses\ndef handler():\n    @dataclasses.dataclass\n    class Form:\n        modes: list[Mode]"
        + READS
    ),
    "a text in an annotation": (
        "from pydantic import BaseModel\ndef handler():\n"
        "    class Form(BaseModel):\n        modes: Optional[list['Mode']]" + READS
    ),
}


@pytest.mark.parametrize("head", ["", FUTURE])
@pytest.mark.parametrize("kind", IN_FUNCTION)
def test_a_text_that_names_a_class_which_changed_stops_the_old_code(kind: str, head: str, tmp_path: Path) -> None:
    """In a class that a function makes. Libraries look such texts up in the present module."""
    text = head + "from typing import Optional\nfrom pydantic import TypeAdapter\n" + MODE + IN_FUNCTION[kind]
    assert both(tmp_path / "same", text)[1] is True
    if not head and "text" not in kind:
        assert both(tmp_path / "other", text, changed="X = 2")[1] is True
        return
    with pytest.raises(
        NotLoaded, match=r"a class in a function has a text that names server.Mode, which is another class"
    ):
        both(tmp_path / "other", text, changed="X = 2")


def test_a_text_that_names_a_module_with_a_class_which_changed_stops_the_old_code(tmp_path: Path) -> None:
    server = FUTURE + (
        "import shop\nfrom pydantic import BaseModel, TypeAdapter\ndef handler():\n"
        "    class Form(BaseModel):\n        modes: list[shop.Mode]\n    return shop.same(Form(modes=[1]).modes[0])"
    )
    shop = MODE + "def same(mode): return mode is Mode.LIVE\n"
    data = written(tmp_path / "before", {"server.py": server, "shop.py": shop})
    with release(tmp_path / "same", {"server.py": "import shop", "shop.py": shop}):
        assert read(data).handler.function() is True
    with (
        release(tmp_path / "after", {"server.py": server, "shop.py": shop.replace("# changed", "X = 2")}),
        pytest.raises(NotLoaded, match=r"has a text that names shop.Mode"),
    ):
        read(data)


IN_MODULE = {
    "a named tuple": "from typing import NamedTuple\nclass Form(NamedTuple):\n    modes: list[Mode]",
    "a typed dict": (
        "from typing_extensions import NotRequired, TypedDict\n"
        "class Form(TypedDict):\n    modes: list[Mode]\n    more: NotRequired[int]"
    ),
    "a dataclass": "import dataclasses\n@dataclasses.dataclass\nclass Form:\n    modes: 'list[Mode]'",
    "a text in an annotation": (
        "import dataclasses\n@dataclasses.dataclass\nclass Form:\n    modes: Optional[list['Mode']]"
    ),
}


@pytest.mark.parametrize("head", ["", FUTURE])
@pytest.mark.parametrize("kind", IN_MODULE)
def test_a_text_means_what_it_meant(kind: str, head: str, tmp_path: Path) -> None:
    """In a class of a module."""
    text = head + "from typing import Optional\nfrom pydantic import TypeAdapter\n" + MODE + IN_MODULE[kind]
    text += "\ndef handler():" + (READS.replace(").modes", ")['modes']") if "dict" in kind else READS)
    assert both(tmp_path, text, changed="X = 2")[1] is True


def test_what_code_binds_and_changes_is_one_for_the_old_and_the_new(tmp_path: Path) -> None:
    text = (
        "counters = {'n': 0}\ndef bump(): counters['n'] += 1\n"
        "_next = 0\ndef number():\n    global _next\n    _next += 1\n    return _next\n"
        "_client = None\ndef client():\n    global _client\n    _client = _client or object()\n    return _client\n"
        "state = None\ndef set(value):\n    global state\n    state = value\n"
        "def handler():\n    bump()\n    return word(), counters['n'], number(), number(), client(), state"
    )
    data = written(tmp_path / "before", SAYS + text)
    with release(tmp_path / "after", (SAYS + text).replace("'old'", "'new'")) as module:
        handler = read(data).handler.function
        assert handler() == ("old", 1, 1, 2, module.client(), None)
        module.set(7)
        assert handler()[-1] == 7
        assert (module.counters, module.number(), module._next) == ({"n": 2}, 5, 5)


REBOUND = {
    "a global": ("n = 0\ndef handler():\n    global n\n    n += 1", "server.handler binds 'n'"),
    "an attribute of a class": (
        "class Only:\n    one = None\n    def get(self):\n        Only.one = Only.one or self\n"
        "def handler(): return Only",
        "server.Only binds 'one'",
    ),
    "a name of a closure": (
        "def made():\n    n = 0\n    def number():\n        def next():\n            nonlocal n\n            n += 1\n"
        "            return n\n        return next()\n    return number\nnumber = made()\n"
        "def handler(): return number()",
        "server.made.<locals>.number binds 'n'",
    ),
    "an attribute of a function": (
        "def handler():\n    handler.n = getattr(handler, 'n', 0) + 1\nhandler.n = 0",
        "server.handler binds 'n'",
    ),
    "an attribute of a function in a function": (
        "def made():\n    def number():\n        number.n += 1\n        return number.n\n    number.n = 0\n"
        "    return number\nnumber = made()\ndef handler(): return number()",
        "server.made.<locals>.number binds 'n'",
    ),
    "an attribute of a method": (
        "class Word:\n    def count(self):\n        Word.count.n += 1\n    count.n = 0\ndef handler(): return Word",
        "server.Word.count binds 'n'",
    ),
    "an attribute of a function, elsewhere": (
        "def count(): return count.n\ncount.n = 0\ndef handler():\n    count.n += 1\n    return count()",
        "server.count binds 'n'",
    ),
    "a default that is also extended": (
        "def handler(seen=['a']):\n    seen += ['b']\n    seen.append('c')",
        "server.handler binds 'seen'",
    ),
    "a default": (
        "def handler(seen=[], *, known={}):\n    seen.append(1)\n    return seen, known.get(1)",
        "server.handler binds 'seen'",
    ),
    "a keyword default": (
        "def handler(*, known={'a': {}}):\n    known['a'][1] = 2",
        "server.handler binds 'known'",
    ),
}


@pytest.mark.parametrize("kind", REBOUND)
def test_what_is_bound_anew_is_named(kind: str, tmp_path: Path) -> None:
    text, named = REBOUND[kind]
    assert rebound(written(tmp_path / "before", text)) == [named]


NOT_REBOUND = {
    "a name of an inner function": (
        "def helper(): return helper.word\nhelper.word = 'old'\n"
        "def handler(words=['x'], table={}):\n    n = 0\n    def add():\n        nonlocal n\n        n += 1\n"
        "    add()\n    found = [*words]\n    found.append(table.get(n))\n    return helper()"
    ),
    "a mark of a decorator": (
        "def named(name):\n    def deco(fn):\n        fn.tool_name = name\n        return fn\n    return deco\n"
        "@named('tea')\ndef handler(): return handler.tool_name"
    ),
    "marks of the function that a decorator makes": (
        "def deco(fn):\n    def wrapper(): return fn()\n    wrapper.__wrapped__ = fn\n    wrapper.word = 'old'\n"
        "    return wrapper\n@deco\ndef handler(): return 1"
    ),
    "an attribute of what a parameter of the same name is": (
        "def mark(handler): handler.word = 'old'\ndef handler(): return handler.word\nmark(handler)"
    ),
    "a copy of a default": "def handler(tags=['a']):\n    tags = list(tags)\n    tags.append('b')\n    return tags",
}


@pytest.mark.parametrize("kind", NOT_REBOUND)
def test_what_each_call_binds_for_itself_is_not_named(kind: str, tmp_path: Path) -> None:
    """Nor is what was bound once, when a function was made."""
    assert rebound(written(tmp_path / "before", NOT_REBOUND[kind])) == []


def test_the_digest_of_a_class_does_not_change_while_it_is_used(tmp_path: Path) -> None:
    text = (
        "import enum, functools\nclass Rights(enum.Flag):\n    READ = 1\n    WRITE = 2\n"
        "    @functools.cached_property\n    def said(self): return 1\n"
        "class Only:\n    one = None\n    all = {}\n    count = 0\n    @classmethod\n    def get(cls):\n"
        "        cls.one = cls.one or cls()\n        cls.all[1] = cls.one\n        return cls.one\n"
        "def count(): Only.count += 1\n"
        "def handler(): return count(), Rights.READ | Rights.WRITE, Rights.READ.said, Only.get(), Only.all"
    )
    with release(tmp_path / "only", text) as module:
        before = codes().of(registered(module.handler)).digest
        module.handler()
        assert codes().of(registered(module.handler)).digest == before


LAZY = {
    "a copy of an object": "copy.copy(Word())",
    "a pickled object": "pickle.dumps(Word())",
    "types of attrs that are read": "attrs.resolve_types(Word)",
}


@pytest.mark.parametrize("use", LAZY)
def test_what_python_and_libraries_leave_on_a_class_is_no_change_of_it(use: str, tmp_path: Path) -> None:
    text = (
        f"{SAYS}import attrs, copy, pickle\n@attrs.define(slots=False)\nclass Word:\n    n: int = 0\n"
        f"def use(): {LAZY[use]}\ndef handler(): return word(), Word"
    )
    with release(tmp_path / "before", text) as module:
        before = codes().of(registered(module.handler)).digest
        module.use()
        assert codes().of(registered(module.handler)).digest == before
        data = codes().write(registered(module.handler))
    with release(tmp_path / "after", text.replace("'old'", "'new'")) as module:
        assert read(data).handler.function() == ("old", module.Word)
