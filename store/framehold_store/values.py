"""What an effect under `once` may give back, as bytes: its value, or the exception that it raised.

The law: **callers give `unpack` only bytes whose seal was verified** (`seal.Sealer.open`). Some of them are pickles,
and whoever chooses a pickle runs code here; the seal is what says that this fleet chose it. A node on which
`FRAMEHOLD_PICKLE` is off writes no pickles and loads none.

    codec           what the bytes are                                      gives
    json            JSON, where it comes back equal and of the same types   the value
    pickle          a pickle of anything else, or where JSON is too large   the value
    raised-own      JSON: a class of the table below and its arguments      the exception
    raised-pickle   a pickle of an exception                                the exception
    raised          JSON: the class's name and the text                     `EffectFailed`

An exception's cause, context and traceback are dropped, its notes kept. A pickle names classes by reference, those of
`__main__` too, so that `isinstance`, `except` and an enum's `is` hold on any node; only what no name leads to (a class
inside a function, a lambda) is written out by cloudpickle.
"""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

import cloudpickle

from framehold_core import errors

MAX_DEPTH = 100  # containers inside containers, as JSON: written near the top of the stack, read deep down it
MAX_TEXT = 2000  # characters of an exception's text that `raised` keeps
MAX_NUMBER = 10**640  # Python may be set to read no integer of more digits than 640; it is above any finite float, too

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


class Packed(NamedTuple):
    """Bytes, and how to read them."""

    codec: str
    data: bytes


class Outcome(NamedTuple):
    """What an effect gave: a value, or the exception that it raised."""

    value: Any = None
    error: Exception | None = None

    def get(self) -> Any:
        """Return the value, or raise the exception with a fresh traceback. It is one object: tasks that may raise it
        at the same time unpack one each."""
        if self.error is None:
            return self.value
        try:
            raise _fresh(self.error)
        finally:
            del self  # the traceback holds this frame, which would hold the exception


class _TooLarge(Exception):
    def __init__(self, size: object, limit: int) -> None:
        super().__init__(f"it takes {size} bytes, FRAMEHOLD_MAX_VALUE allows {limit}; return less or raise the setting")


class _Apart(pickle.Pickler):
    """For exceptions whose constructor wants more than their `args`: they are made again without it."""

    def reducer_override(self, item: Any) -> Any:
        kind: Any = type(item)
        if kind.__reduce__ in (BaseException.__reduce__, OSError.__reduce__) and type(kind.__init__) is FunctionType:
            return _made, (kind, item.args, dict(vars(item)))
        return NotImplemented


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """What is allowed: whether pickles are, and how many bytes one value may take (`FRAMEHOLD_MAX_VALUE`)."""

    pickle: bool
    limit: int

    def pack(self, value: Any) -> Packed:
        """The stored form of an effect's result; the caller goes on with what `unpack` makes of it.

        Raises:
            ResultNotKept: it can't be pickled and loaded again, or may not be; or it takes more than `limit` bytes.
        """
        failure, plain = None, "return plain JSON values from the effect, e.g. a model's model_dump(mode='json')"
        try:
            holds = _unplain(value, self.limit)
            if not holds:
                return Packed("json", _encode(value, self.limit))
            why = f"it holds {holds}, which is not plain JSON, and FRAMEHOLD_PICKLE is off; {plain}"
        except Exception as error:  # too large; or it changes while it is read, or the stack is nearly full
            why = str(error) if isinstance(error, _TooLarge) else f"it can't be read ({_named(error)}); {plain}"
        if self.pickle:
            data, failure = _tried(self._pickled, value)
            if failure is None:
                return Packed("pickle", data)
            plain = f"({_named(failure)}); return plain data from the effect, e.g. an id in place of a connection"
            why = str(failure) if isinstance(failure, _TooLarge) else f"it can't be pickled and loaded again {plain}"
        what = f"the effect ran and is not run again, but its result, of type {_name(type(value))}, was not kept"
        raise errors.ResultNotKept(f"{what}: {why}") from failure

    def pack_error(self, error: Exception) -> Packed:
        """The stored form of what an effect raised: as it is where it can be, else by name. Never raises."""
        ways = (("raised-own", self._own), ("raised-pickle", self._pickled), ("raised-pickle", _apart))
        for codec, write in ways if self.pickle else ways[:1]:
            data, _ = _tried(write, error)
            again, _ = _tried(_READ[codec], data)
            if _tried(_same, error, again)[0] and len(data) <= self.limit:
                return Packed(codec, data)
        return Packed("raised", _encode({"kind": _name(type(error)), "text": _text(error)[:MAX_TEXT]}))

    def unpack(self, codec: str, data: bytes) -> Outcome:
        """Read what `pack` or `pack_error` wrote, on this node or another. `data` came out of a verified seal.

        Raises:
            ValueUnreadable: it can't be made into an object here, whatever its class's own code raised meanwhile.
        """
        failure = None
        if codec not in _READ:
            why = "no codec of this release; let a node of the newer release that wrote it take the call"
        elif _READ[codec] is _load and not self.pickle:
            why = "FRAMEHOLD_PICKLE is off on this node; give all nodes one setting, or let another take the call"
        else:
            found, failure = _tried(_READ[codec], data)
            if codec.startswith("raised") and failure is None:
                found, failure = _tried(_fresh, found)
            if failure is None:
                return Outcome(error=found) if codec.startswith("raised") else Outcome(found)
            why = f"{_named(failure)}; keep its class where it was, or let a node that has it take the call"
        what = f"what an effect under `once` gave can't be read (stored as {codec!r}, {len(data)} bytes); the handler"
        raise errors.ValueUnreadable(f"{what} was not continued, and the effect was not run again: {why}") from failure

    def _own(self, error: Exception) -> bytes:
        """Plain arguments, and attributes that are the constructor's keywords. The caller compares what comes back."""
        reduced: Any = type(error).__reduce__(error)
        keywords = dict(*reduced[2:])
        notes = keywords.pop("__notes__", [])
        form = {"class": type(error).__name__, "args": list(reduced[1]), "with": keywords, "notes": notes}
        return b"" if _unplain(form, self.limit) else _encode(form)

    def _pickled(self, value: Any) -> bytes:
        """By reference if all of it has names, else with cloudpickle; loaded once. Raises what its code does."""
        try:
            data = pickle.dumps(value, 5)
        except Exception:
            data = cloudpickle.dumps(value, 5)
        if len(data) > self.limit:
            raise _TooLarge(len(data), self.limit)
        _load(data)
        return data


def _tried(run: Callable[..., Any], *arguments: Any) -> tuple[Any, BaseException | None]:
    """Run what runs a class's own code, which may raise anything. Only KeyboardInterrupt is let through."""
    try:
        return run(*arguments), None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return None, error


def _load(data: bytes) -> Any:
    """Unpickle, here and nowhere else. The bytes were sealed by this fleet, and the seal was verified."""
    return pickle.loads(data)


def _unplain(value: Any, limit: int) -> str:
    """What `value` holds that JSON does not give back as it is; "" if nothing. By exact type, level by level.

    Raises _TooLarge where JSON takes more than `limit` bytes for certain, so that shared parts can't multiply.
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
    # As UTF-8 and not as escapes: two escapes that stand for lone surrogates would be read as one character.
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


def _read_told(data: bytes) -> Exception:
    form = _parse(data)
    what = f"the effect raised {form['kind']}: {form['text']}; that can't be stored as it is; the effect is not run"
    return errors.EffectFailed(f"{what} again; look at `kind`, or raise one made of plain values", kind=form["kind"])


_READ: dict[str, Callable[[bytes], Any]] = {
    "json": _parse,
    "pickle": _load,
    "raised-own": _read_own,
    "raised-pickle": _load,
    "raised": _read_told,
}


def _apart(error: Exception) -> bytes:
    file = io.BytesIO()
    _Apart(file, 5).dump(error)
    return file.getvalue()


def _made(kind: Any, arguments: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Pickles name this function: it keeps its name and place."""
    error = kind.__new__(kind, *arguments)
    BaseException.__setattr__(error, "args", arguments)
    vars(error).update(attributes)
    return error


def _same(one: Any, other: Any) -> bool:
    """Whether an exception came back: its class, its text, and its arguments unless the class has its own pickling."""
    if type(one) is not type(other):
        return False
    if isinstance(one, BaseException):
        arranged = type(one).__reduce__ is not BaseException.__reduce__
        return str(one) == str(other) and (arranged or _same(one.args, other.args))
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other or bool(one == other)


def _fresh(error: Exception) -> Exception:
    """Without what an earlier raise left on it. Past the class's own `__setattr__`: it may be frozen."""
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
