"""The code of FastMCP's components, for calls that go on with the code that they began with (docs/protocol.md, rule
28).

The store keeps the author's function, its dependencies with it, and the values by which FastMCP makes the component
again. What surrounds a component is that of the present release: middleware, guards, extensions, and the settings of
the server. Kept are only components that FastMCP makes of a function and runs itself: none of a mounted server, none
that was transformed, and no class of the author.

A frame that enters kept code has the component in a context variable. The look-ups of the served server, by which
FastMCP finds what it runs, look there first.

Private parts of FastMCP that are touched here (a missing part gives a clear error; a test names the release):

- `FastMCP._lookup_resource`: finds a resource that is read. It is replaced on the served server only, like the public
  look-ups
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from fastmcp import FastMCP
from fastmcp.prompts.function_prompt import FunctionPrompt
from fastmcp.resources.function_resource import FunctionResource
from fastmcp.resources.template import FunctionResourceTemplate
from fastmcp.server.providers import fastmcp_provider as mounted
from fastmcp.tools.function_tool import FunctionTool
from fastmcp.tools.tool_transform import TransformedTool
from fastmcp.utilities.async_utils import is_coroutine_function
from fastmcp.utilities.components import FastMCPComponent, public_result_meta
from fastmcp.utilities.versions import VersionSpec

from ..code.codes import Codes, Registered
from ..frame import context as variables
from ..sdk.marks import Marks, marks_of
from ..sdk.wrapped_handler import FoundHandler, Handler
from .fastmcp_components import method_of, moved, named

GUARDED = "guarded"
"""The member of `Registered.about` that says whether the component had authorization of its own."""

MOUNTED = "it is a component of a mounted server"
"""Why the code of such a component is not kept."""


class _Kind(NamedTuple):
    """A class of components that are made of a function. `make` makes one again, of the function and the values of
    `fields`. `finds` gives the result of each look-up by which FastMCP finds the component."""

    make: Callable[..., FastMCPComponent]
    fields: tuple[str, ...]
    finds: Callable[[FastMCPComponent], dict[str, Any]]


_KINDS: dict[type, _Kind] = {
    FunctionTool: _Kind(
        FunctionTool.from_function,
        ("name", "timeout", "output_schema", "run_in_thread"),
        lambda tool: {"get_tool": tool},
    ),
    FunctionPrompt: _Kind(FunctionPrompt.from_function, ("name", "description"), lambda prompt: {"get_prompt": prompt}),
    FunctionResource: _Kind(
        FunctionResource.from_function,
        ("uri", "name", "mime_type"),
        lambda resource: {"_lookup_resource": (resource, True)},
    ),
    FunctionResourceTemplate: _Kind(
        FunctionResourceTemplate.from_function,
        ("uri_template", "name", "mime_type", "security"),
        # FastMCP looks for a resource first: here it finds none, whatever the present release has at this address.
        lambda template: {"_lookup_resource": (None, False), "get_resource_template": template},
    ),
}
_NAMED = {kind.__name__: kind for kind in _KINDS}
LOOKUPS = ("get_tool", "get_prompt", "_lookup_resource", "get_resource_template")
"""The methods by which FastMCP finds what it runs."""


class _Entered(NamedTuple):
    """The kept component that a frame runs: what the look-ups of `server` find under `name`."""

    server: FastMCP[Any]
    name: str
    finds: Mapping[str, Any]


_entered: contextvars.ContextVar[_Entered | None] = contextvars.ContextVar(
    f"{variables.OWN_PREFIX}kept_component", default=None
)


def registered(served: Any, fn: Any) -> Registered:
    """A component as its code is kept: the author's function, and what FastMCP needs to make the component again. Only
    the function if `obstacle` says why its code is not kept."""
    kind = _KINDS.get(type(served))
    as_what = (method_of(served), named(served, ()), marks_of(fn).reentrant)
    if kind is None:
        return Registered(fn, {}, *as_what)
    values = {name: getattr(served, name) for name in kind.fields}
    if "uri" in values:
        values["uri"] = str(values["uri"])
    about = {"kind": type(served).__name__, "meta": public_result_meta(served.meta), **values}
    return Registered(fn, {**about, GUARDED: served.auth is not None}, *as_what)


def obstacle(served: FastMCPComponent) -> str:
    """Why the code of a component is not kept; empty if it is. `served` is what FastMCP runs."""
    kind = type(served)
    if kind in _KINDS:
        return ""
    if kind.__module__ == mounted.__name__:
        return MOUNTED
    if isinstance(served, TransformedTool):
        return "it is a transformed tool"
    return f"it is a component of the class {kind.__module__}.{kind.__qualname__}, and FastMCP can't make it again"


def made(kept: Registered) -> FastMCPComponent:
    """The component of kept code.

    Raises:
        Exception: anything: this release of fastmcp does not make a component of it.
    """
    values = {name: value for name, value in kept.about.items() if name not in ("kind", GUARDED)}
    return _KINDS[_NAMED[kept.about["kind"]]].make(kept.function, **values)


def find_kept_first(server: FastMCP[Any]) -> None:
    """Have the look-ups of a server find the kept component, in a frame that runs one. Raises ConfigError."""
    if not callable(getattr(server, "_lookup_resource", None)):
        raise moved("its look-up of resources")
    for name in LOOKUPS:
        setattr(server, name, KeptLookup(server, name))


class KeptLookup:
    """Stands in the place of one look-up of a served server."""

    def __init__(self, server: FastMCP[Any], name: str) -> None:
        self._server, self._name = server, name
        self.present = getattr(server, name)
        """What was there before."""

    async def __call__(self, name: str, version: VersionSpec | None = None) -> Any:
        """What a frame's kept code has under `name`; else what the present release has."""
        kept = _entered.get()
        if kept is not None and kept.server is self._server and kept.name == name and self._name in kept.finds:
            return kept.finds[self._name]
        return await self.present(name, version)


@contextmanager
def _entering(kept: _Entered) -> Iterator[None]:
    before = _entered.set(kept)
    try:
        yield
    finally:
        _entered.reset(before)


class NamedEntry(NamedTuple):
    """What a client's name leads to: the author's function, None if there is none, and what FastMCP runs. If this
    release has nothing by that name, `served` is None and `fn` is the function of the call's kept code."""

    fn: Any
    served: FastMCPComponent | None


def component_handler(
    server: FastMCP[Any], name: str, fn: Any, served: FastMCPComponent | None, enter: Handler, codes: Codes
) -> FoundHandler:
    """One component as the handler of a request. `fn` and `served` are those of its `NamedEntry`. `enter` has FastMCP
    find and run what it has under `name`."""
    component = None if fn is None else served

    def kept(was: Registered) -> Handler:
        made_again = made(was)
        entered = _Entered(server, name, _KINDS[type(made_again)].finds(made_again))

        async def enter_kept(ctx: Any, params: Any) -> Any:
            with _entering(entered):
                return await enter(ctx, params)

        return enter_kept

    return FoundHandler(
        fn,
        Marks() if fn is None else marks_of(fn),
        lambda: is_coroutine_function(fn),
        # Any function of FastMCP can find its context.
        lambda: is_coroutine_function(fn),
        codes,
        lambda: None if component is None else registered(component, fn),
        kept,
        lambda: "" if component is None else obstacle(component),
    )
