"""What an effect gave comes back as it was, or is said to be lost; nothing else happens."""

import ast
import asyncio
import errno
import json
import pickle
import socket
import subprocess
import sys
import threading
import traceback
import types
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from pathlib import Path
from typing import Any, NoReturn

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp import MCPError
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel, ValidationError

from framehold.code import loading
from framehold_core import errors
from framehold_store import pickles, values
from framehold_store.values import MAX_DEPTH, MAX_TEXT, EffectOutcome, PackedResult, Values

ON, OFF = Values(pickle=True, limit=1 << 20), Values(pickle=False, limit=1 << 20)


def there_and_back(value: Any, kept: Values = ON) -> Any:
    return kept.unpack(*kept.pack(value)).get()


def raised_again(error: Exception, kept: Values = ON) -> Exception:
    again = kept.unpack(*kept.pack_error(error))
    with pytest.raises(Exception) as caught:
        again.get()
    assert caught.value is again.error
    assert again.error is not None
    return again.error


def spelled(value: Any) -> Any:
    """With each part's type; repr tells -0.0 from 0.0."""
    if type(value) is dict:
        return {key: spelled(part) for key, part in value.items()}
    return [spelled(part) for part in value] if type(value) is list else (type(value), repr(value))


text = st.text(st.characters(exclude_categories=()))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text
plain: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(text, inner), max_leaves=20
)
anything: st.SearchStrategy[Any] = st.recursive(
    scalars | st.binary() | st.datetimes() | st.decimals(allow_nan=False) | st.uuids(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.integers() | text, inner),
    max_leaves=20,
)


@given(plain)
@example([-0.0, 10**640 - 1, "\ud83d\ude00", "\ud800", {"": [{}, []]}, 2.5e-320, "\0\u2028"])
def test_plain_values_are_json(value: Any) -> None:
    packed = OFF.pack(value)
    assert packed.codec == "json"
    assert spelled(OFF.unpack(*packed).get()) == spelled(value)
    assert OFF.pack(value) == ON.pack(value)


@given(anything)
def test_other_values_are_pickles(value: Any) -> None:
    again = there_and_back(value)
    assert again == value
    assert repr(again) == repr(value)


class Level(IntEnum):
    LOW = 1


class Name(str): ...


class Account(BaseModel):
    owner: str
    since: datetime


@dataclass(frozen=True)
class Receipt:
    number: int


@pytest.mark.parametrize(
    "value",
    [
        *((1, 2), {1: 2}, b"x", Level.LOW, Name("x"), [(1,)], {"a": {None: 1}}, float("inf"), 10**640, -(10**5000)),
        *(1j, {1}, Account(owner="x", since=datetime(2026, 1, 1, tzinfo=UTC)), Receipt(7), Receipt, len),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_json_would_change_is_a_pickle(value: Any) -> None:
    """And refused where pickles are off: the message says what happened and what to do."""
    assert ON.pack(value).codec == "pickle"
    again = there_and_back(value)
    assert (type(again), again) == (type(value), value)
    with pytest.raises(errors.ResultNotKept) as caught:
        OFF.pack(value)
    for part in ("the effect ran", "was not kept", type(value).__name__, "FRAMEHOLD_PICKLE is off", "model_dump"):
        assert part in str(caught.value)


def test_a_function_without_a_name_is_pickled_whole() -> None:
    assert there_and_back(lambda: 7)() == 7


def test_a_class_that_no_name_leads_to_is_refused() -> None:
    """Who replays the call could only make another class of it, and `isinstance` would be false there."""

    class Local:
        pass

    for value in (Local(), [Local], {Local(): 1}):
        with pytest.raises(errors.ResultNotKept, match=r"no name leads to the class .*Local.*top of a module"):
            ON.pack(value)
    error = type("Lost", (Exception,), {"__module__": __name__})("text")
    assert ON.pack_error(error).codec == "raised"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_depth() -> None:
    """JSON up to a depth that is the same on every node; never a RecursionError."""
    assert ON.pack(nested(MAX_DEPTH - 1)).codec == "json"
    assert ON.pack(nested(MAX_DEPTH)).codec == "pickle"
    assert there_and_back(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    for kept, depth in ((OFF, MAX_DEPTH), (OFF, 100_000), (ON, 100_000)):
        with pytest.raises(errors.ResultNotKept, match=r"deep|recursion"):
            kept.pack(nested(depth))
    with pytest.raises(errors.ValueUnreadable, match="RecursionError"):
        ON.unpack("json", b"[" * 100_000 + b"]" * 100_000)


def test_cycles_and_shared_parts() -> None:
    """A cycle is a pickle; parts that are shared don't multiply."""
    cycle: list[Any] = []
    cycle.append(cycle)
    again = there_and_back(cycle)
    assert again[0] is again
    bomb: Any = [1]
    for _ in range(60):
        bomb = [bomb, bomb]
    assert len(ON.pack(bomb).data) < 1000
    with pytest.raises(errors.ResultNotKept, match="at least"):
        OFF.pack(bomb)


@pytest.mark.parametrize("kept", [Values(pickle=True, limit=100), Values(pickle=False, limit=100)])
@pytest.mark.parametrize("value", ["x" * 101, "é" * 60, "\0" * 90, ["x" * 40, "y" * 60], list(range(99)), b"x" * 101])
def test_what_is_too_large_is_refused(kept: Values, value: Any) -> None:
    """With the setting, the size and the limit; and exactly what fits is kept."""
    if type(value) is bytes:
        kept = Values(pickle=True, limit=100)
    with pytest.raises(errors.ResultNotKept, match=r"takes (at least )?\d+ bytes, FRAMEHOLD_MAX_VALUE allows 100;"):
        kept.pack(value)
    assert there_and_back("x" * 98, kept) == "x" * 98


class Trap:
    """Raises while it is pickled, or while it is loaded."""

    def __init__(self, error: BaseException, *, late: bool) -> None:
        self.error, self.late = error, late

    def __reduce__(self) -> Any:
        if not self.late:
            raise self.error
        return fall, (self.error,)


def fall(error: BaseException) -> NoReturn:
    raise error


class Odd(BaseException): ...


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("error", [ValueError("x"), SystemExit(1), asyncio.CancelledError(), GeneratorExit(), Odd()])
def test_what_can_not_be_loaded_is_found_at_once(error: BaseException, late: bool) -> None:
    """Whatever its code raises; only an interrupt of the user's is let through."""
    with pytest.raises(errors.ResultNotKept, match=f"Trap, was not kept.*{type(error).__name__}"):
        ON.pack(Trap(error, late=late))
    with pytest.raises(KeyboardInterrupt):
        ON.pack(Trap(KeyboardInterrupt(), late=late))


def test_connections_and_locks_are_refused() -> None:
    with socket.socket() as connection:
        for value in (connection, threading.Lock(), (x for x in "xy"), sys._getframe()):
            with pytest.raises(errors.ResultNotKept, match=f"{type(value).__name__}, was not kept.*plain data"):
                ON.pack(value)


# Exceptions.


class Declined(Exception):
    def __init__(self, *, code: int, hint: str) -> None:
        super().__init__(f"declined with {code}")
        self.code, self.hint = code, hint


class Doubling(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(f"failed with {code}")
        self.code = code


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class Lost(OSError):
    def __init__(self, host: str) -> None:
        super().__init__(f"lost {host}")


class Holding(Exception):
    def __init__(self, held: Any) -> None:
        super().__init__("it holds something")
        self.held = held


class Mute(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def caught(run: Callable[[], Any]) -> Exception:
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


REQUEST = httpx2.Request("POST", "https://example.com/charge", json={"a": 1})
RESPONSE = httpx2.Response(503, request=REQUEST, text="busy")
KEPT: list[tuple[Exception, tuple[str, ...]]] = [
    (MCPError(-32602, "no such seat", {"seat": "1A"}), ("code", "message", "data")),
    (ToolError("sold out"), ()),
    (json.JSONDecodeError("bad", "doc", 1), ("pos", "doc")),
    (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ("object",)),
    (caught(lambda: Account.model_validate({"owner": 1})), ()),
    (httpx2.ConnectTimeout("slow", request=REQUEST), ()),
    (caught(RESPONSE.raise_for_status), ()),
    (ExceptionGroup("two", [ValueError("a"), ExceptionGroup("in", [Declined(code=1, hint="x")])]), ("message",)),
    (Declined(code=5, hint="ask"), ("code", "hint")),
    (Doubling(5), ("code",)),
    (Frozen(5), ("code",)),
    (Frozen(code=5), ("code",)),
    (Lost("db"), ()),
    (ValueError(b"x", (1, 2)), ()),
    (errors.ConfigError("x"), ()),
]


@pytest.mark.parametrize(("error", "names"), KEPT, ids=lambda value: type(value).__name__)
def test_an_exception_comes_back_as_it_was(error: Exception, names: tuple[str, ...]) -> None:
    """Class, text and attributes; where its constructor can't make it again, without."""
    again = raised_again(error)
    assert (type(again), str(again)) == (type(error), str(error))
    if not isinstance(error, (ExceptionGroup, ValidationError)):
        assert again.args == error.args
    for name in names:
        assert getattr(again, name) == getattr(error, name)
    if isinstance(again, httpx2.HTTPStatusError):
        assert (again.response.status_code, again.response.text, again.request.method) == (503, "busy", "POST")
    if isinstance(again, ExceptionGroup) and isinstance(error, ExceptionGroup):
        assert repr(again.exceptions) == repr(error.exceptions)
    result = raised_again(error, OFF)
    assert type(result) is errors.EffectFailed
    assert result.kind.rpartition(".")[2] == type(error).__name__


OWN: list[Exception] = [
    *(errors.InDoubt("x"), errors.KeyReused("x"), errors.ResultNotKept("x"), errors.OnceError("x")),
    *(errors.LimitExceeded("too many", limit="FRAMEHOLD_MAX"), errors.EffectFailed("x", kind="shop.Declined")),
    *(
        ValueError("x"),
        ValueError(),
        ValueError("\ud800", 1, None, [1]),
        KeyError("k"),
        RuntimeError("r"),
        Exception(1),
    ),
    *(
        TimeoutError("t"),
        ConnectionError("c"),
        PermissionError(errno.EPERM, "no", "file"),
        LookupError("l"),
        OSError("o"),
    ),
    *(OSError(errno.ENOENT, "none", "a", None, "b"), OSError(99999, "odd"), NotImplementedError(), IndexError(1)),
]


@pytest.mark.parametrize("kept", [ON, OFF])
@pytest.mark.parametrize("error", OWN, ids=repr)
def test_own_and_built_in_exceptions_need_no_pickle(error: Exception, kept: Values) -> None:
    error.add_note("seen")
    assert kept.pack_error(error).codec == "raised-own"
    again = raised_again(error, kept)
    assert type(again) is type(error)
    assert (again.args, str(again), vars(again)) == (error.args, str(error), vars(error))
    if isinstance(error, OSError) and isinstance(again, OSError):
        assert (again.errno, again.filename, again.filename2) == (error.errno, error.filename, error.filename2)


class Impostor(ValueError): ...


def test_only_the_class_of_the_table_itself() -> None:
    """Not one of the same name, not an heir, none that has more to it."""
    shadow = types.new_class("KeyError", (Exception,))
    more = ValueError("x")
    more.code = 5  # type: ignore[attr-defined]  # that is the point
    for error in (Impostor("x"), shadow("x"), more, ValueError((1,)), ValueError(float("nan")), errors.InDoubt(b"x")):
        assert OFF.pack_error(error).codec == "raised"
    for data in (b'{"class":"SystemExit","args":[],"with":{},"notes":[]}', b'{"class":"Popen"}', b"[]", b'"eval"'):
        with pytest.raises(errors.ValueUnreadable):
            ON.unpack("raised-own", data)


def test_an_exception_that_can_not_be_kept_is_told() -> None:
    with socket.socket() as connection:
        for held in (connection, threading.Lock(), "x" * 2_000_000):
            result = raised_again(Holding(held))
            assert isinstance(result, errors.EffectFailed)
            assert result.kind.endswith("test_values.Holding")
            assert "it holds something" in str(result)
    packed = Values(pickle=True, limit=100).pack_error(ValueError("y" * 1_000_000))
    assert packed.codec == "raised"
    assert packed.data.count(b"y") == MAX_TEXT
    assert isinstance(raised_again(ValueError(object())), errors.EffectFailed)


@pytest.mark.parametrize("kept", [ON, OFF])
def test_packing_an_error_never_raises(kept: Values) -> None:
    trap = Trap(SystemExit(), late=True)
    cyclic = ValueError()
    cyclic.args = (cyclic,)
    hostile = [
        Mute(),
        ValueError(trap),
        Holding(trap),
        Holding(Trap(Odd(), late=False)),
        cyclic,
        ValueError(nested(9999)),
    ]
    for error in hostile:
        assert type(kept.unpack(*kept.pack_error(error)).error) in (errors.EffectFailed, type(error))
    assert "can't be read" in str(raised_again(Mute(), kept))


def test_what_led_to_an_error_is_dropped() -> None:
    def run() -> None:
        try:
            raise KeyError("k")
        except KeyError as error:
            wrong = Declined(code=1, hint="x")
            wrong.add_note("seen")
            raise wrong from error

    for error in (caught(run), ValueError("x").with_traceback(caught(run).__traceback__)):
        again = ON.unpack(*ON.pack_error(error)).error
        assert again is not None
        assert (again.__cause__, again.__context__, again.__traceback__) == (None, None, None)
        assert getattr(again, "__notes__", []) == getattr(error, "__notes__", [])


@pytest.mark.parametrize("error", [ValueError("x"), Frozen(1)])
def test_an_outcome_may_be_asked_often(error: Exception) -> None:
    outcome = EffectOutcome(error=error)

    def ask() -> Exception:
        try:
            outcome.get()
        except Exception as found:
            return found
        raise AssertionError("nothing was raised")

    depths = {len(traceback.extract_tb(ask().__traceback__)) for _ in range(5)}
    assert len(depths) == 1
    try:
        raise KeyError("other")
    except KeyError:
        assert isinstance(ask().__context__, KeyError)
    assert ask().__context__ is None
    assert not ask().__suppress_context__
    assert EffectOutcome(None).get() is None
    assert EffectOutcome(5).get() == 5


# Reading.


class Moved:
    pass


class Sour:
    def __setstate__(self, state: object) -> None:
        raise self.error  # type: ignore[attr-defined]  # each test sets it

    def __getstate__(self) -> object:
        return 1


@pytest.mark.parametrize("error", [ValueError("sour"), SystemExit(1), asyncio.CancelledError(), Odd("odd")])
def test_what_raises_while_it_is_loaded_is_unreadable(error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    data = pickle.dumps(Sour())
    monkeypatch.setattr(Sour, "error", error, raising=False)
    for codec in ("pickle", "raised-pickle"):
        with pytest.raises(errors.ValueUnreadable, match="handler was not continued") as caught:
            ON.unpack(codec, data)
        assert type(error).__name__ in str(caught.value)
    monkeypatch.setattr(Sour, "error", KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ON.unpack("pickle", data)


def test_a_class_that_is_gone_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = ON.pack(Moved())
    monkeypatch.delattr(sys.modules[__name__], "Moved")
    with pytest.raises(errors.ValueUnreadable, match=r"Moved.*; keep its class where it was"):
        ON.unpack(*packed)


@given(st.sampled_from([*values._PLAIN, *values._PICKLES, "zstd", ""]), st.binary(max_size=30))
def test_rubbish_is_unreadable(codec: str, data: bytes) -> None:
    """Or, by chance, a value; nothing else. (No pickle: random ones are harmless only almost surely.)"""
    try:
        outcome = OFF.unpack(codec, data)
    except errors.ValueUnreadable as error:
        assert repr(codec) in str(error)
        return
    assert codec in ("json", "raised", "raised-own")
    assert isinstance(outcome, EffectOutcome)


@pytest.mark.parametrize(
    "packed",
    [
        *(ON.pack({"a": [1]}), ON.pack((1, 2)), ON.pack_error(ValueError("x")), ON.pack_error(ToolError("x"))),
        *(ON.pack_error(Declined(code=1, hint="x")), ON.pack_error(Holding(threading.Lock()))),
    ],
    ids=lambda packed: packed.codec,
)
def test_what_was_cut_is_unreadable(packed: PackedResult) -> None:
    ON.unpack(*packed)
    for size in range(len(packed.data)):
        with pytest.raises(errors.ValueUnreadable, match="handler was not continued"):
            ON.unpack(packed.codec, packed.data[:size])


def test_pickles_that_are_off_are_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = [ON.pack((1,)), ON.pack_error(ToolError("x")), ON.pack_error(Declined(code=1, hint="x"))]
    assert {item.codec for item in packed} == {"pickle", "raised-pickle"}
    loaded: list[bytes] = []
    monkeypatch.setattr(pickle, "loads", loaded.append)
    for item in packed:
        with pytest.raises(errors.ValueUnreadable, match="FRAMEHOLD_PICKLE is off"):
            OFF.unpack(*item)
    for value in ((1,), object(), b""):
        with pytest.raises(errors.ResultNotKept):
            OFF.pack(value)
    OFF.pack_error(ToolError("x"))
    assert loaded == []


def test_a_codec_of_a_newer_release_is_named() -> None:
    with pytest.raises(errors.ValueUnreadable, match=r"'zstd'.*newer release"):
        ON.unpack("zstd", b"")
    with pytest.raises(errors.ValueUnreadable, match="TypeError: a str stands where an exception"):
        ON.unpack("raised-pickle", pickle.dumps("no exception"))


LOADERS = ("load", "loads", "Unpickler")


def test_two_classes_unpickle() -> None:
    """The modules of both say that the bytes were sealed; and no other file of the packages unpickles."""
    root = Path(values.__file__).parents[2]
    found = []
    for file in root.glob("*/framehold*/**/*.py"):
        for function in ast.walk(ast.parse(file.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names = {ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Attribute)}
                if names & {f"{module}.{name}" for module in ("pickle", "cloudpickle") for name in LOADERS}:
                    found.append((file.name, function.name))
    assert sorted(found) == [("loading.py", "Loader"), ("pickles.py", "_Reader")]
    for module in (values, pickles, loading):
        assert "whose seal was verified" in (module.__doc__ or "")


SCRIPT = """
import enum, sys
from framehold_store.values import Values
class State(enum.Enum):
    PAID = 1
class Declined(Exception): ...
kept = Values(pickle=True, limit=10_000)
if sys.argv[1:]:
    codec, data = "pickle", bytes.fromhex(sys.argv[1])
    assert kept.unpack(codec, data).get() is State.PAID
    assert type(kept.unpack("raised-pickle", bytes.fromhex(sys.argv[2])).error) is Declined
else:
    print(kept.pack(State.PAID).data.hex(), kept.pack_error(Declined("x")).data.hex())
"""


def test_classes_of_a_script_are_the_same_on_another_node() -> None:
    first = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    subprocess.run([sys.executable, "-c", SCRIPT, *first.stdout.split()], check=True)
