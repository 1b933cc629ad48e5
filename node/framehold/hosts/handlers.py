"""The marks of the functions behind a server's handlers, and which of these functions may ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from ..code.codes import Codes, NotKept, too_large
from ..sdk.marks import Marks, marks_of
from ..sdk.wrapped_handler import FoundHandler
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
    """The functions that `host` finds, with their marks."""

    def __init__(self, host: Host, codes: Codes | None = None) -> None:
        self.host, self.codes = host, codes or Codes()

    def learn(self, host: Host) -> None:
        """Use `host`, another host of the same server, from now on if it knows each function. An MCPServer does; its
        low-level server knows one function for each method."""
        if host.knows_each_function:
            self.host = host

    def find(self, method: str, params: Mapping[str, Any]) -> FoundHandler:
        """The handler of a request; see `wrapped_handler.Find`. It has no marks and does not ask if its function is not
        known, or is not async."""
        host = self.host
        fn = host.function(method, params)
        return FoundHandler(
            fn,
            _UNMARKED if fn is None else marks_of(fn),
            lambda: fn is not None and host.may_ask(fn),
            lambda: fn is not None and host.may_ask(fn) and host.takes_context(fn),
            self.codes,
            partial(host.registered, method, params),
            partial(host.kept, method, params),
        )

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
            except (NotKept, OSError) as error:
                yield HandlerCode(item.name, problem=str(error))
            else:
                yield HandlerCode(item.name, self.codes.of(item.code).digest, size, too_large(size, limit))

    def served_codes(self) -> Iterator[str]:
        """The digests of the code of the re-entrant handlers."""
        return (self.codes.of(item.code).digest for item in self._reentrant())

    def _reentrant(self) -> Iterator[Registration]:
        return (item for item in self.host.registrations() if marks_of(item.code.function).reentrant)

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
