"""The marks of the functions behind a server's handlers, and which of these functions may ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

from ..code.codes import Codes, NotKept, Registered, too_large
from ..sdk.marks import Marks, marks_of
from ..sdk.wrapped_handler import Handler
from .host import Host, Registration

_UNMARKED = Marks()


class HandlerCode(NamedTuple):
    """The code of a handler, whose name is as in `tool "book"`: its digest and its size in bytes. `problem` says why it
    can't be kept; empty if it can."""

    name: str
    digest: str = ""
    size: int = 0
    problem: str = ""


class MarkedHandler(NamedTuple):
    """A handler that may ask, whose name is as in `tool "book"`. `asks`: it takes the object by which handlers ask, or
    is marked. `strategy` is `hold` or `replay`."""

    name: str
    asks: bool
    reentrant: bool
    strategy: Literal["hold", "replay"]


class Handlers:
    """The marks of the functions that `host` finds: the `HandlerLookup` of a whole server."""

    def __init__(self, host: Host, codes: Codes | None = None) -> None:
        self.host, self.codes = host, codes or Codes()

    def learn(self, host: Host) -> None:
        """Use `host`, another host of the same server, from now on if it knows each function. An MCPServer does; its
        low-level server knows one function for each method."""
        if host.knows_each_function:
            self.host = host

    def marks(self, method: str, params: Mapping[str, Any]) -> Marks:
        """The marks of the handler of a request; `Marks()` if there is no such handler. `params` are the raw
        parameters."""
        fn = self.host.function(method, params)
        return _UNMARKED if fn is None else marks_of(fn)

    def function(self, method: str, params: Mapping[str, Any]) -> Any:
        """The author's function that serves a request; None if there is none."""
        return self.host.function(method, params)

    def asks(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether the handler of a request may ask. False if there is no such handler, or it is not async."""
        fn = self.host.function(method, params)
        return fn is not None and self.host.may_ask(fn)

    def takes_context(self, method: str, params: Mapping[str, Any]) -> bool:
        """Whether the handler of a request may ask, and gets the object by which handlers usually do; true where the
        host can't know. False if there is no such handler."""
        fn = self.host.function(method, params)
        return fn is not None and self.host.may_ask(fn) and self.host.takes_context(fn)

    def code(self, method: str, params: Mapping[str, Any]) -> str:
        """The digest of the code of a request's handler; empty if there is none."""
        found = self.host.registered(method, params)
        return "" if found is None else self.codes.of(found).digest

    def written(self, method: str, params: Mapping[str, Any]) -> bytes:
        """The code of a request's handler as bytes for the store. Raises NotKept."""
        found = self.host.registered(method, params)
        if found is None:
            raise NotKept("there is no such handler any more")
        return self.codes.write(found)

    def kept_code(self, limit: int) -> Iterator[HandlerCode]:
        """The code of each re-entrant handler. `limit` is how many bytes a code may have. Handlers marked
        `keep_code=False` are left out."""
        for item in self._reentrant():
            if not marks_of(item.code.function).keep_code:
                continue
            if item.obstacle:
                yield HandlerCode(item.name, problem=item.obstacle)
                continue
            try:
                size = len(self.codes.write(item.code))
            except NotKept as error:
                yield HandlerCode(item.name, problem=str(error))
            else:
                yield HandlerCode(item.name, self.codes.of(item.code).digest, size, too_large(size, limit))

    def served_codes(self) -> Iterator[str]:
        """The digests of the code of the re-entrant handlers."""
        return (self.codes.of(item.code).digest for item in self._reentrant())

    def _reentrant(self) -> Iterator[Registration]:
        return (item for item in self.host.registrations() if marks_of(item.code.function).reentrant)

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """A handler that serves a request by a function that was registered in an earlier process; None if the server
        can't be served so."""
        return self.host.kept(method, params, registered)

    def asking(self) -> Iterator[Any]:
        """The functions that may ask."""
        return (fn for _, fn in self.host.asking())

    def marked(self, strategy: Literal["hold", "replay"]) -> Iterator[MarkedHandler]:
        """The handlers that may ask, with their marks. `strategy` is the setting STRATEGY."""
        for name, fn in self.host.asking():
            marks = marks_of(fn)
            is_marked = marks.reentrant or marks.strategy is not None or marks.ttl is not None
            asks = is_marked or self.host.takes_context(fn)
            yield MarkedHandler(name, asks, marks.reentrant, marks.strategy or strategy)

    def unmarked(self) -> tuple[str, ...]:
        """The handlers that may ask and are not re-entrant, by name, as in `tool "book"`. Handlers that are marked with
        strategy hold are left out."""
        return self.replayed_unmarked("replay")

    def replayed_unmarked(self, strategy: Literal["hold", "replay"]) -> tuple[str, ...]:
        """The handlers that may ask and are not re-entrant, by name, but whose calls would be replayed if the setting
        STRATEGY is `strategy`."""
        found = ((name, marks_of(fn)) for name, fn in self.host.asking())
        return tuple(name for name, marks in found if not marks.reentrant and (marks.strategy or strategy) == "replay")

    def names(self) -> Iterator[str] | None:
        """The names of all tools and prompts; None if only the author's function knows them."""
        return self.host.names()

    def count(self, strategy: Literal["hold", "replay"]) -> tuple[int, int, int]:
        """Three numbers: the handlers that may ask, those of them that are re-entrant, and those of them that are
        replayed if the setting STRATEGY is `strategy`."""
        found = [marks_of(fn) for _, fn in self.host.asking()]
        replayed = sum((marks.strategy or strategy) == "replay" for marks in found)
        return len(found), sum(marks.reentrant for marks in found), replayed
