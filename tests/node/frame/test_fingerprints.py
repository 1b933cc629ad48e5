"""One fingerprint for one meaning, in every process; and no argument is an error."""

import collections
import dataclasses
import functools
import os
import subprocess
import sys
import textwrap
import threading
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from enum import Enum, Flag, IntEnum, StrEnum
from ipaddress import ip_address, ip_interface
from pathlib import PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, PrivateAttr

from framehold.frame.fingerprints import MAX_PARTS, name_of, of


def charge(*args: Any, **kwargs: Any) -> None: ...


async def refund() -> None: ...


class Shop:
    def charge(self) -> None: ...

    @classmethod
    def make(cls) -> None: ...

    @staticmethod
    def tax() -> None: ...

    def __call__(self) -> None: ...


class Heir(Shop): ...


@functools.wraps(charge)
def wrapped() -> None: ...


def fp(*args: Any, **kwargs: Any) -> str:
    return of(charge, args, kwargs)


def test_names() -> None:
    """Without modules and enclosing functions; a callable object goes by its class."""

    def inner() -> None: ...

    class Local:
        def run(self) -> None: ...

    named: dict[str, tuple[Any, ...]] = {
        "charge": (charge, wrapped, functools.partial(functools.partial(charge, 1), 2), functools.lru_cache(charge)),
        "refund": (refund,),
        "Shop.charge": (Shop.charge, Shop().charge, Heir().charge, functools.partial(Shop().charge)),
        "Shop.make": (Shop.make, Heir.make),
        "Shop.tax": (Shop.tax,),
        "Shop": (Shop, Shop()),
        "Heir": (Heir(),),
        "inner": (inner,),
        "Local.run": (Local().run,),
        "<lambda>": (lambda: 0,),
        "len": (len,),
        "list.append": ([].append, list.append),
    }
    for name, fns in named.items():
        assert [name_of(fn) for fn in fns] == [name] * len(fns)


def test_what_is_called_is_part_of_it() -> None:
    assert of(charge, (1,), {}) != of(refund, (1,), {})
    assert of(functools.partial(charge, 1, a=2), (3,), {"b": 4}) == fp(1, 3, a=2, b=4)
    assert of(functools.partial(charge, 1), (), {}) != of(functools.partial(charge, 2), (), {})


class Colour(Enum):
    RED = 1
    BLUE = 2


class Number(IntEnum):
    ONE = 1


class Text(StrEnum):
    ONE = "1"


class Mode(Flag):
    A = 1
    B = 2


class UserId(str): ...


class Count(int): ...


class Rows(list[int]): ...


class Pair(NamedTuple):
    a: int
    b: int


@dataclasses.dataclass
class Item:
    a: int
    seen: object = dataclasses.field(default=None, compare=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Slim:
    a: int


class Model(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: Any
    _secret: int = PrivateAttr(0)


class Zone(tzinfo):
    def utcoffset(self, when: datetime | None) -> timedelta:
        raise AssertionError("the author's code was called")

    dst = tzname = utcoffset  # type: ignore[assignment]  # whatever they give, they are not called


WHEN = datetime(2026, 7, 28, 12, tzinfo=UTC).replace(tzinfo=None)
DIFFERENT: list[Any] = [
    *(None, True, False, 1, 0, 1.0, 0.0, -0.0, "1", "", "True", b"1", bytearray(b"1"), Decimal("1"), Decimal("1.0")),
    *(10**400, 10**400 + 1, -(10**400), float("inf"), 1j, range(3), range(4), "x" * 5000, "x" * 5001, b"x" * 5000),
    *([], (), {}, set(), frozenset(), [1], (1,), {1}, frozenset({1}), {1: 1}, {"1": 1}, [[1]], [1, 1], [True], ["1"]),
    *([[1], 2], [1, [2]], [1, 2], {"a": [1]}, {"a": (1,)}, ["list", 1], collections.deque([1]), ["a", "b"], {"a": "b"}),
    *(WHEN, WHEN.replace(tzinfo=UTC), WHEN.replace(tzinfo=timezone(timedelta(hours=2))), WHEN.replace(fold=1)),
    *(WHEN.replace(tzinfo=ZoneInfo("UTC")), WHEN.replace(tzinfo=Zone()), WHEN.isoformat(), date(2026, 7, 28)),
    *(ip_address("10.0.0.1"), *map(ip_interface, ("10.0.0.1/24", "10.0.0.1/16", "::1/64", "::1/32"))),
    *(time(12), time(12, tzinfo=UTC), timedelta(1), UUID(int=1), UUID(int=2), PurePosixPath("a"), PurePosixPath("b")),
    *(Colour.RED, Colour.BLUE, Number.ONE, Text.ONE, Mode.A, Mode.A | Mode.B, UserId("1"), Count(1), Rows([1])),
    *(Pair(1, 2), Pair(2, 1), (1, 2), Item(1), Item(2), Slim(1), Slim(2), Model(a=1), Model(a="1"), Model(a=1, b=2)),
    *(charge, refund, Shop, Heir, Shop(), lambda: 0, len, functools.partial(refund), object(), threading.Lock()),
]


def test_different_arguments_differ() -> None:
    """Each of the list from every other. (A partial as an argument goes by its function's name and its own type.)"""
    seen: dict[str, Any] = {}
    for value in DIFFERENT:
        other = seen.setdefault(fp(value), value)
        assert other is value, f"{value!r} reads as {other!r}"


def test_equal_arguments_agree() -> None:
    assert fp(a=1, b=2) == fp(b=2, a=1) != fp(a=2, b=1)
    assert fp({"a": 1, "b": 2}) == fp({"b": 2, "a": 1})
    assert fp({1: "x", "1": "y", None: "z"}) == fp({None: "z", "1": "y", 1: "x"})
    assert fp({"b", "a", 3, (1, 2)}) == fp({(1, 2), 3, "a", "b"})
    assert fp(Item(1, seen=object())) == fp(Item(1, seen=threading.Lock()))
    one, other = Model(a=1), Model(a=1)
    other._secret = 5
    assert fp(one) == fp(other)
    assert fp(memoryview(b"abcd")[::2]) == fp(memoryview(b"ac"))


class Hostile:
    """Every way in is a trap."""

    def trap(self, *args: Any) -> Any:
        raise AssertionError("the author's code was called")

    __repr__ = __str__ = __eq__ = __hash__ = __iter__ = __len__ = __bool__ = __getattr__ = __reduce__ = trap
    __format__ = __bytes__ = __int__ = __float__ = __index__ = __call__ = __fspath__ = __getattribute__ = trap
    __class__ = property(trap)


HEIRS: list[Any] = [
    type("H", (Hostile, base), {"__new__": base.__new__, "__hash__": base.__hash__})
    for base in (str, int, float, list, tuple, dict, bytes, set, frozenset, date, Decimal)
]


@pytest.mark.parametrize("kind", HEIRS, ids=lambda kind: kind.__mro__[2].__name__)
def test_no_code_of_the_author_runs(kind: Any) -> None:
    base = kind.__mro__[2]
    value = base.__new__(kind, 2026, 1, 1) if base is date else base.__new__(kind)
    assert len(fp(value)) == len(fp(Hostile())) == len(of(value, (), {})) == 32
    assert fp([value]) == fp([value])


class Half(BaseModel):
    a: int


def test_nothing_raises() -> None:
    cycle: list[Any] = [1]
    cycle.append(cycle)
    ring: dict[str, Any] = {}
    ring["ring"] = [ring]
    item = Item(1)
    item.a = item  # type: ignore[assignment]  # that is the point
    deep: Any = 1
    for _ in range(10_000):
        deep = [deep]
    bomb: Any = [1]
    for _ in range(100):
        bomb = [bomb, bomb]
    lots: frozenset[object] = frozenset()
    for _ in range(30):
        lots = frozenset({lots, 1})
    view = memoryview(b"")
    view.release()
    half_made = (Half.__new__(Half), Slim.__new__(Slim))
    for value in (cycle, ring, item, deep, bomb, lots, view, *half_made, "\ud800", "\ud83d" * 5000):
        assert fp(value) == fp(value)
    assert fp(deep) != fp(bomb)


def test_a_full_stack_gives_no_other_fingerprint() -> None:
    """Where hardly a frame is left it is the same one, or none."""

    def down(left: int) -> str:
        return fp([[["x"]]]) if left == 0 else down(left - 1)

    answers = set()
    for left in range(sys.getrecursionlimit()):
        try:
            answers.add(down(left))
        except RecursionError:
            pass
    assert answers == {fp([[["x"]]])}


def test_much_is_described_by_its_beginning() -> None:
    """And by its length; a dict or set by its length alone, for it has no beginning."""
    many = list(range(3 * MAX_PARTS))
    assert fp(many) == fp(list(many)) != fp([*many, 1])
    assert fp(many) != fp([9, *many[1:]])
    assert fp(many) == fp([*many[:-1], 9])
    assert fp(set(many)) == fp({str(number) for number in many}) != fp(set(many[1:]))
    assert fp(dict.fromkeys(many)) == fp(dict.fromkeys(reversed(many)))
    assert fp(b"x" * 10_000_000) != fp(b"x" * 9_999_999 + b"y")


plain: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.decimals() | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(plain, st.randoms(use_true_random=False))
def test_the_order_of_a_dict_is_no_part_of_it(value: Any, random: Any) -> None:

    def shuffled(part: Any) -> Any:
        if type(part) is dict:
            items = [(key, shuffled(inner)) for key, inner in part.items()]
            random.shuffle(items)
            return dict(items)
        return type(part)(map(shuffled, part)) if type(part) in (list, tuple) else part

    assert fp(value) == fp(shuffled(value))


SCRIPT = """
import collections, dataclasses, enum, functools, uuid, decimal
from framehold.frame.fingerprints import of
class Colour(enum.Enum):
    RED = 1
@dataclasses.dataclass(frozen=True)
class Item:
    a: object
class Thing: ...
def charge(): ...
words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta"]
big = {f"{word}{n}" for word in words for n in range(700)}
values = [set(words), frozenset(words), {(word, n) for word in words for n in range(9)}, big, [big, big, big, big],
    {word: {Item(word), Thing} for word in set(words)}, {Item(word): 1 for word in set(words)},
    {Thing(): 1, Thing(): 2},
    Colour.RED, uuid.UUID(int=5), decimal.Decimal("1.50"), Thing(), object(), charge, lambda: 0, {Colour.RED, None},
    [frozenset(list(big)[:0]), [list(range(9000)), set(words)], {frozenset({word}) for word in words}]]
print(of(charge, tuple(values), {word: 1 for word in set(words)}), *[of(charge, (value,), {}) for value in values])
"""


def test_every_process_agrees() -> None:
    outputs = set()
    for seed in ("0", "1", "4711"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        run = [sys.executable, "-c", textwrap.dedent(SCRIPT)]
        outputs.add(subprocess.run(run, env=environment, capture_output=True, text=True, check=True).stdout)
    assert len(outputs) == 1
