"""The result of an effect under `once` as bytes: its value, or the exception that it raised.

The law: **callers give `unpack` only bytes whose seal was verified** (`seal.Sealer.open`). Some of these bytes are
pickles, and a pickle can run any code when it is loaded; the seal proves that this fleet wrote it. A node on which
`FRAMEHOLD_PICKLE` is off writes no pickles and loads none.

    codec           bytes                                                        `unpack` gives
    json            JSON, if it reads back equal and of the same types           the value
    pickle          a pickle of any other value, or of one too large as JSON     the value
    raised-own      JSON: a class of the table below and its arguments           the exception
    raised-pickle   a pickle of an exception                                     the exception
    raised          JSON: the name of the class, and the text of the exception   `EffectFailed`

The cause, context and traceback of an exception are dropped; its notes are kept. `pickles` says what a pickle has.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from framehold_core import errors

from . import pickles
from .named import Known

MAX_DEPTH = 100  # nested containers in JSON: a value written near the top of the stack may be read deep down it
MAX_TEXT = 2000  # characters of an exception's text that `raised` keeps
MAX_NUMBER = 10**640  # Python may be set to refuse integers of more than 640 digits; every finite float is below it

# fmt: off
_OWN: dict[str, type[Exception]] = {kind.__name__: kind for kind in (
    errors.OnceError, errors.InDoubt, errors.KeyReused, errors.EffectFailed, errors.ResultNotKept,
    errors.LimitExceeded, errors.NotInCall, errors.DuplicateAsk, errors.ValueUnreadable,
    Exception, AssertionError, IndexError, KeyError, LookupError, NotImplementedError, OverflowError, RuntimeError,
    TypeError, ValueError, ZeroDivisionError, OSError, BlockingIOError, BrokenPipeError, ChildProcessError,
    ConnectionAbortedError, ConnectionError, ConnectionRefusedError, ConnectionResetError, FileExistsError,
    FileNotFoundError, InterruptedError, IsADirectoryError, NotADirectoryError, PermissionError, ProcessLookupError,
    TimeoutError,
)}
# fmt: on
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))
_decoder = json.JSONDecoder()


class PackedResult(NamedTuple):
    """The stored form of a result: `data`, and the `codec` that reads it (see the table above)."""

    codec: str
    data: bytes


class EffectOutcome(NamedTuple):
    """The result of an effect: its value, or the exception that it raised."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return the value, or raise the exception with a new traceback. Each call raises the same exception object, so
        two tasks must not share one Outcome: each unpacks its own."""
        if self.error is None:
            return self.value
        try:
            raise _fresh(self.error)
        finally:
            del self  # the traceback holds this frame, which would hold the exception


class _TooLarge(Exception):
    def __init__(self, size: object, limit: int) -> None:
        super().__init__(f"it takes {size} bytes, FRAMEHOLD_MAX_VALUE allows {limit}; return less or raise the setting")


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Packs and unpacks results. `pickle`: whether pickles are allowed (`FRAMEHOLD_PICKLE`). `limit`: bytes that one
    value may take (`FRAMEHOLD_MAX_VALUE`). `known`: what the names in pickles mean (see `pickles`)."""

    pickle: bool
    limit: int
    known: Known = field(default_factory=dict)

    def pack(self, value: Any) -> PackedResult:
        """The stored form of the value that an effect returned. The caller continues with the value that `unpack` reads
        from it, so that a replay sees the same.

        Raises:
            ResultNotKept: the value can't be pickled and loaded again, pickles are not allowed, or it takes more than
                `limit` bytes.
        """
        failure, plain = None, "return plain JSON values from the effect, e.g. a model's model_dump(mode='json')"
        try:
            holds = _unplain(value, self.limit)
            if not holds:
                return PackedResult("json", _encode(value, self.limit))
            why = f"it holds {holds}, which is not plain JSON, and FRAMEHOLD_PICKLE is off; {plain}"
        except Exception as error:  # too large; or it changes while it is read, or the stack is nearly full
            why = str(error) if isinstance(error, _TooLarge) else f"it can't be read ({_named(error)}); {plain}"
        if self.pickle:
            data, failure = _tried(self._pickled, value)
            if failure is not None and not isinstance(failure, _TooLarge):
                # It may hold an exception.
                data, again = _tried(self._unconstructed, value)
                failure = again and failure
            if failure is None:
                return PackedResult("pickle", data)
            plain = f"({_named(failure)}); return plain data from the effect, e.g. an id in place of a connection"
            why = str(failure) if isinstance(failure, _TooLarge) else f"it can't be pickled and loaded again {plain}"
        what = f"the effect ran and is not run again, but its result, of type {_name(type(value))}, was not kept"
        raise errors.ResultNotKept(f"{what}: {why}") from failure

    def pack_error(self, error: Exception) -> PackedResult:
        """The stored form of the exception that an effect raised: the exception itself if it reads back equal, else its
        class name and text. Never raises."""
        pickled = (("raised-pickle", self._pickled), ("raised-pickle", self._unconstructed))
        for codec, write in (("raised-own", self._own), *(pickled if self.pickle else ())):
            data, _ = _tried(write, error)
            again, _ = _tried(self._read, codec, data)
            if _tried(_same, error, again)[0] and len(data) <= self.limit:
                return PackedResult(codec, data)
        return PackedResult("raised", _encode({"kind": _name(type(error)), "text": _text(error)[:MAX_TEXT]}))

    def unpack(self, codec: str, data: bytes) -> EffectOutcome:
        """Read bytes that `pack` or `pack_error` wrote on any node. The caller has verified the seal of `data`.

        Raises:
            ValueUnreadable: the object can't be built here: unknown codec, pickles are off, or the code of its class
                raised anything.
        """
        failure = None
        if codec not in _PLAIN and codec not in _PICKLES:
            why = "no codec of this release; let a node of the newer release that wrote it take the call"
        elif codec in _PICKLES and not self.pickle:
            why = "FRAMEHOLD_PICKLE is off on this node; give all nodes one setting, or let another take the call"
        else:
            found, failure = _tried(self._read, codec, data)
            if codec.startswith("raised") and failure is None:
                found, failure = _tried(_fresh, found)
            if failure is None:
                return EffectOutcome(error=found) if codec.startswith("raised") else EffectOutcome(found)
            why = f"{_named(failure)}; keep its class where it was, or let a node that has it take the call"
        what = f"what an effect under `once` gave can't be read (stored as {codec!r}, {len(data)} bytes); the handler"
        raise errors.ValueUnreadable(f"{what} was not continued, and the effect was not run again: {why}") from failure

    def _own(self, error: Exception) -> bytes:
        """JSON of an exception whose arguments are plain and whose attributes are keywords of its constructor; empty if
        they are not plain. The caller compares the exception that it reads back."""
        reduced: Any = type(error).__reduce__(error)
        keywords = dict(*reduced[2:])
        notes = keywords.pop("__notes__", [])
        form = {"class": type(error).__name__, "args": list(reduced[1]), "with": keywords, "notes": notes}
        return b"" if _unplain(form, self.limit) else _encode(form)

    def _pickled(self, value: Any, constructs: bool = True) -> bytes:
        """A pickle of `value`. It is loaded once as a check. Raises _TooLarge, and whatever the code of its classes
        raises."""
        data = pickles.dumps(value, self.known, constructs=constructs)
        if len(data) > self.limit:
            raise _TooLarge(len(data), self.limit)
        pickles.loads(data, self.known)
        return data

    def _unconstructed(self, value: Any) -> bytes:
        return self._pickled(value, constructs=False)

    def _read(self, codec: str, data: bytes) -> Any:
        return pickles.loads(data, self.known) if codec in _PICKLES else _PLAIN[codec](data)


def _tried(run: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """Run a function that runs the code of an author's class, and may raise anything. Returns its result and None, or
    None and the exception. Only KeyboardInterrupt is raised."""
    try:
        return run(*arguments), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


def _unplain(value: Any, limit: int) -> str:
    """Describes the first part of `value` that JSON would not read back equal and of the same type; "" if there is
    none. Compares exact types, level by level.

    Raises _TooLarge if JSON would certainly take more than `limit` bytes: a value that contains one part many times
    would otherwise grow without bound.
    """
    size, level = 0, [value]
    for _ in range(MAX_DEPTH):
        inner: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                size += len(item)
            elif kind is int or kind is float:
                if not -MAX_NUMBER < item < MAX_NUMBER:
                    return "a number that is not finite, or of more than 640 digits"
            elif kind is dict:
                inner += item.values()
                for key in item:
                    if type(key) is not str:
                        return f"a key of type {_name(type(key))}"
                    size += len(key)
            elif kind is list:
                inner += item
            elif item is not None and kind is not bool:
                return f"a value of type {_name(kind)}"
            if size + len(inner) > limit:
                raise _TooLarge(f"at least {size + len(inner)}", limit)
        if not inner:
            return ""
        size, level = size + len(level), inner
    return f"containers more than {MAX_DEPTH} deep"


def _encode(value: Any, limit: int = 1 << 62) -> bytes:
    # UTF-8, not escapes: the escapes of two lone surrogates would be read as one character.
    data = _encoder.encode(value).encode("utf-8", "surrogatepass")
    if len(data) > limit:
        raise _TooLarge(len(data), limit)
    return data


def _parse(data: bytes) -> Any:
    return _decoder.decode(data.decode("utf-8", "surrogatepass"))


def _read_own(data: bytes) -> Exception:
    form = _parse(data)
    error = _OWN[form["class"]](*form["args"], **form["with"])
    for note in form["notes"]:
        error.add_note(note)
    return error


def _read_by_name(data: bytes) -> Exception:
    form = _parse(data)
    what = f"the effect raised {form['kind']}: {form['text']}; that can't be stored as it is; the effect is not run"
    return errors.EffectFailed(f"{what} again; look at `kind`, or raise one made of plain values", kind=form["kind"])


_PLAIN: dict[str, Callable[[bytes], Any]] = {"json": _parse, "raised-own": _read_own, "raised": _read_by_name}
_PICKLES = frozenset({"pickle", "raised-pickle"})


def _same(one: Any, other: Any) -> bool:
    """Whether an exception was read back equal: its class, its text, and its arguments unless the class has a
    `__reduce__` of its own. Lists and tuples are compared item by item."""
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseException):
        arranged = type(one).__reduce__ is not BaseException.__reduce__
        return str(one) == str(other) and (arranged or _same(one.args, other.args))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other or bool(one == other)


def _fresh(error: object) -> Exception:
    """`error` without the traceback, cause and context of an earlier raise. They are set past the class's own
    `__setattr__`, because the exception may be a frozen dataclass.

    Raises:
        TypeError: `error`, which was read from the store, is no exception.
    """
    if not isinstance(error, Exception):
        raise TypeError(f"a {_name(type(error))} stands where an exception was stored")
    for name, nothing in (("__cause__", None), ("__context__", None), ("__suppress_context__", False)):
        BaseException.__setattr__(error, name, nothing)
    return BaseException.with_traceback(error, None)


def _name(kind: type) -> str:
    module = kind.__module__
    return kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    text, failure = _tried(lambda: str.__str__(str(error)))
    return text if failure is None else "(its text can't be read)"


def _named(error: BaseException) -> str:
    return f"{_name(type(error))}: {_text(error)[:200]}"
