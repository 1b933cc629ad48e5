"""The codes of the handlers of one server: the digest of each, and its bytes for the store."""

from __future__ import annotations

import inspect
import json
import platform
import weakref
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from framehold_core.errors import FrameholdError
from framehold_store.named import Known, Named

from ..version import VERSION
from . import loading, meeting, trial, writing
from .authors import Authors
from .constants import SourceUnreadable
from .reach import Reach
from .sources import ModuleSources

_FORMAT = 1
_LIBRARIES = ("mcp", "fastmcp", "pydantic", "cloudpickle")
"""Libraries whose releases are named when kept code can't be loaded."""


class NotKept(FrameholdError):
    """The code of a handler can't be kept."""


class NotLoaded(FrameholdError):
    """Kept code can't be loaded in this process."""


def too_large(size: int, limit: int) -> str:
    """Why code of `size` bytes is not kept, where `limit` bytes are allowed; empty if it is kept."""
    return f"it has {size} bytes, FRAMEHOLD_MAX_CODE allows {limit}" if size > limit else ""


class Registered(NamedTuple):
    """A handler as its server has it: the function with its decorators, what else the server needs to serve it (plain
    values), the method and the name (or the template of addresses) that it serves, and whether it is marked re-entrant.
    All of it is part of the digest: a function with two names has two codes. Stored code refers to this class, so it
    must keep its name and its module."""

    function: Any
    about: dict[str, Any]
    method: str
    name: str
    reentrant: bool

    def serves(self, method: str, name: str) -> bool:
        """Whether it serves this method, and a tool or a prompt of this name. Many addresses may have one template, so
        they are not compared; nor are names where one function has all of a method."""
        return self.method == method and (method == "resources/read" or self.name in ("", name))


class LoadedCode(NamedTuple):
    """Kept code in this process: its handler, and the functions, classes and objects that it consists of, by their
    names. Values that it recorded have to be read with these."""

    handler: Registered
    known: Known


class Code(NamedTuple):
    """The code of a handler of this process. `digest` names it; empty if the handler is no Python function. `problems`
    says why it can't be kept; empty if it can."""

    digest: str
    problems: tuple[str, ...]


_NO_CODE = Code("", ("it is no function that Python compiled",))


class Codes:
    """Knows the code of each handler of a server. `authors` decides whose a module is."""

    def __init__(self, authors: Authors | None = None) -> None:
        self._authors = authors or Authors()
        self._sources = ModuleSources(self._authors)
        self._known: weakref.WeakKeyDictionary[Any, dict[tuple[Any, ...], tuple[dict[str, Any], Code]]] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, handler: Registered) -> Code:
        """The code of a handler. It is found out once: what changes in the process later is not seen."""
        try:
            return self._known_code(handler)
        except SourceUnreadable as error:
            # Later it may be read.
            return Code("", (f"its source can't be read now ({error})",))

    def _known_code(self, handler: Registered) -> Code:
        try:
            known = self._known.setdefault(handler.function, {})
        except Exception:
            # It is not hashable, or weak references can't refer to it.
            return self._found(handler)
        _, about, *rest = handler
        served = tuple(rest)
        found = known.get(served)
        if found is None or found[0] != about:
            found = known[served] = (about, self._found(handler))
        return found[1]

    def _found(self, handler: Registered) -> Code:
        if not callable(handler.function):
            return _NO_CODE
        try:
            reach = self._reach(handler)
        except SourceUnreadable:
            raise
        except Exception as error:
            # The author's objects may raise anything when they are read.
            return Code("", (f"its code can't be read ({type(error).__name__}: {error})",))
        return Code(reach.digest, reach.problems)

    def _reach(self, handler: Registered) -> Reach:
        self._authors.include(getattr(inspect.unwrap(handler.function), "__module__", ""))
        return Reach(tuple(handler), self._authors, self._sources)

    def write(self, handler: Registered) -> bytes:
        """The code of a handler as bytes that `read` reads in any process of this release of Python. They are read once
        on trial.

        Raises:
            NotKept: it can't be written, or can't be read again.
            SourceUnreadable: a source of it can't be read now.
        """
        try:
            reach = self._reach(handler)
            if reach.problems:
                raise NotKept("; ".join(reach.problems))
            body = writing.write(handler, reach)
        except (NotKept, SourceUnreadable):
            raise
        except Exception as error:
            # The author's objects may raise anything when they are read.
            raise NotKept(f"it can't be written ({type(error).__name__}: {error})") from error
        try:
            trial.check(body)
        except Exception as error:
            raise NotKept(f"it can't be loaded again ({type(error).__name__}: {error})") from error
        forms = {":".join(name): form for name, form in reach.forms.items()}
        rebound = sorted(reach.rebound)
        head = {**_tags(), "authors": self._authors.decisions(), "forms": forms, "rebound": rebound}
        return json.dumps(head).encode() + b"\n" + body


def rebound(data: bytes) -> list[str]:
    """Which globals and attributes of classes the code that `Codes.write` has written binds anew when it runs."""
    found: list[str] = json.loads(data.partition(b"\n")[0])["rebound"]
    return found


def read(data: bytes) -> LoadedCode:
    """Load code that `Codes.write` has written. This fleet sealed the bytes, and the caller has verified the seal.

    Raises:
        NotLoaded: another release of Python wrote it, or a part of it is missing here.
    """
    head, _, body = data.partition(b"\n")
    try:
        tags = json.loads(head)
        if tags["format"] != _FORMAT or tags["python"] != _python():
            raise NotLoaded(f"it was written by {tags['python']} in format {tags['format']}; this is {_python()}")
        sources = ModuleSources(authors := Authors(*tags["authors"]))
        unchanged = _unchanged(tags["forms"], authors, sources)
        loaded = loading.load(body, unchanged)
        meeting.check(loaded, unchanged, authors, sources)
    except NotLoaded:
        raise
    except Exception as error:
        raise NotLoaded(f"{type(error).__name__}: {error}{_differences(head)}") from error
    handler = loaded.handler
    if type(handler) is not Registered:
        raise NotLoaded(f"it holds an object of {type(handler).__name__}, and no handler")
    loading.resolve_annotations(handler.function)
    return LoadedCode(handler, loaded.known)


def _unchanged(forms: dict[str, str], authors: Authors, sources: ModuleSources) -> dict[Named, Any]:
    """What this process has as it was when code was written. `forms` has the digests of then."""
    named_then = (Named(*name.split(":")) for name in forms)
    present = {named: found for named in named_then if (found := named.found()) is not None}
    now = Reach(list(present.values()), authors, sources, subclasses=present).forms
    return {named: found for named, found in present.items() if now.get(named) == forms[":".join(named)]}


def _tags() -> dict[str, Any]:
    return {"format": _FORMAT, "python": _python(), "framehold": VERSION, **_releases()}


def _python() -> str:
    """The implementation and minor release of Python: each has its own form of compiled code."""
    major, minor, _ = platform.python_version_tuple()
    return f"{platform.python_implementation()} {major}.{minor}"


def _releases() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _differences(head: bytes) -> str:
    """The libraries that had another release when the code was written, for an error message."""
    try:
        then = json.loads(head)
    except ValueError:
        return ""
    differing = [f"{name} {then.get(name)} then, {now} now" for name, now in _tags().items() if then.get(name) != now]
    return f" ({', '.join(differing)})" if differing else ""
