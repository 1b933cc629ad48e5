"""The marks of the functions behind a server's handlers, and which of these functions may ask."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from ..code.codes import Codes, NotKept, Registered, too_large
from ..sdk.marks import Marks, marks_of
from ..sdk.wrapped_handler import Handler
from .host import Host

_UNMARKED = Marks()


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

    def kept_code(self, limit: int) -> Iterator[tuple[str, str]]:
        """The re-entrant handlers by name, as in `tool "book"`, each with the reason why its code can't be kept; empty
        if it can. `limit` is how many bytes a code may have. Handlers marked `keep_code=False` are left out."""
        not_kept = self.host.not_kept()
        for name, fn in self.host.asking():
            marks = marks_of(fn)
            if not marks.reentrant or not marks.keep_code:
                continue
            if name in not_kept:
                yield name, not_kept[name]
            else:
                try:
                    size = len(self.codes.write(Registered(getattr(fn, "raw_function", fn), {})))
                except NotKept as error:
                    yield name, str(error)
                else:
                    yield name, too_large(size, limit)

    def kept(self, method: str, params: Mapping[str, Any], registered: Registered) -> Handler | None:
        """A handler that serves a request by a function that was registered in an earlier process; None if the server
        can't be served so."""
        return self.host.kept(method, params, registered)

    def asking(self) -> Iterator[Any]:
        """The functions that may ask."""
        return (fn for _, fn in self.host.asking())

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
